"""Relations inside of spaCy, between the entities of a rule."""

from __future__ import annotations

import json
import pickle

import pytest

from msattn import RelationExtractionPipeline
from msattn.plots import relation_graph
from tests.tiny_models import saved_model, tiny_relation_extractor

spacy = pytest.importorskip("spacy")
Doc = spacy.tokens.Doc
TEXTS = ["The author wrote a book in the house.", "A dog.", "", "The book of the author. " * 2]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return saved_model(tmp_path_factory.mktemp("relations"), *tiny_relation_extractor(scales=[3]))


def build(model, **config):
    nlp = spacy.blank("en")
    ruler = nlp.add_pipe("entity_ruler")
    ruler.add_patterns([{"label": word.upper(), "pattern": word} for word in ("author", "book", "house")])
    nlp.add_pipe("msattn_relations", config={"model": model, **config})
    return nlp


def test_relations_are_those_of_the_pipeline(model):
    nlp = build(model, threshold=0.1)
    model, tokenizer = tiny_relation_extractor(scales=[3])
    extract = RelationExtractionPipeline(model=model, tokenizer=tokenizer)
    docs = list(nlp.pipe(TEXTS))
    for doc, text in zip(docs, TEXTS, strict=True):
        entities = [{"start": e.start_char, "end": e.end_char, "label": e.label_} for e in doc.ents]
        expected = extract({"text": text, "entities": entities}, threshold=0.1)
        assert [
            (r["head"].text, r["tail"].label_, r["label"], pytest.approx(r["score"])) for r in doc._.relations
        ] == [(r["head"]["text"], r["tail"]["label"], r["label"], r["score"]) for r in expected]
    assert extract(docs[0], threshold=0.1) == extract([docs[0]], threshold=0.1)[0]
    assert len(docs[0]._.relations) == 6 and docs[1]._.relations == docs[2]._.relations == []


def test_sentences_are_those_of_the_document(model):
    nlp = build(model, threshold=0.0, same_sentence=True)
    texts = ["The author wrote; the book in a house.", "The author slept. The book was there."]
    assert [len(doc._.relations) for doc in nlp.pipe(texts)] == [6, 0]  # by our rules
    nlp.add_pipe("sentencizer", config={"punct_chars": [";"]}, first=True)
    docs = [*nlp.pipe(texts)]
    assert [len(doc._.relations) for doc in docs] == [2, 2]
    assert all(row["head"].sent == row["tail"].sent for doc in docs for row in doc._.relations)


def test_a_span_counts_from_its_start(model):
    nlp = build(model)
    doc = nlp("No! The author wrote a book.")
    model, tokenizer = tiny_relation_extractor(scales=[3])
    extract = RelationExtractionPipeline(model=model, tokenizer=tokenizer)
    found = extract(doc[2:], threshold=0.0)
    assert {(row["head"]["text"], row["tail"]["text"]) for row in found} == {("author", "book"), ("book", "author")}
    assert all(row["head"]["start"] in (4, 19) for row in found)


def test_documents_with_relations_are_saved_and_copied(model):
    nlp = build(model, threshold=0.0)
    doc = nlp(TEXTS[0])
    merged = doc.copy()
    with merged.retokenize() as retokenizer:
        retokenizer.merge(merged[:2])  # as the component "merge_entities" does
    retokenized = [row["head"].text for row in merged._.relations if row["head"].text != "The author"]
    assert retokenized == [row["head"].text for row in doc._.relations if row["head"].text != "author"]
    assert doc[2:].as_doc(copy_user_data=True)._.relations == []
    box = spacy.tokens.DocBin(docs=[doc], store_user_data=True)
    saved = [*spacy.tokens.DocBin().from_bytes(box.to_bytes()).get_docs(nlp.vocab)]
    for other in (Doc(nlp.vocab).from_bytes(doc.to_bytes()), pickle.loads(pickle.dumps(doc)), doc.copy(), *saved):
        assert [(row["head"].text, row["tail"].label_, row["label"], row["score"]) for row in other._.relations] == [
            (row["head"].text, row["tail"].label_, row["label"], row["score"]) for row in doc._.relations
        ]
    assert len(doc._.relations) == 6 and relation_graph(doc._.relations).count("author") > 1
    assert json.dumps(doc.user_data["msattn_relations"])


def test_pairs_of_types_and_saved_pipelines(model, tmp_path):
    nlp = build(model, threshold=0.0, pairs=[("AUTHOR", "BOOK")])
    nlp.to_disk(tmp_path)
    for loaded in (nlp, spacy.load(tmp_path)):
        (relation,) = loaded(TEXTS[0])._.relations
        assert (relation["head"].text, relation["tail"].text) == ("author", "book")
    assert len(build(model, threshold=0.0, pairs="all")(TEXTS[0])._.relations) == 6
    with pytest.raises(spacy.util.ConfigValidationError, match=r"model\s.*required"):
        spacy.blank("en").add_pipe("msattn_relations")
