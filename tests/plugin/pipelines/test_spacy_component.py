"""A parser inside of spaCy. Blank pipelines only: there are no models of spaCy to be had here."""

from __future__ import annotations

import pytest

from tests.tiny_models import saved_model, tiny_parser

spacy = pytest.importorskip("spacy")
TAGS = {
    "upos": ["NOUN", "VERB", "no UPOS"],
    "xpos": ["NN", "VB"],
    "feats": ["_", "Case=Nom|Number=Sing"],
    "lemma": ["lower\tbe", "upper\t0\t\t0\t"],
}


def saved(folder, **options):
    return saved_model(folder, *tiny_parser(objective="pairs", **options))


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return saved(tmp_path_factory.mktemp("parser"))


@pytest.fixture
def nlp(model):
    nlp = spacy.blank("en")
    nlp.add_pipe("msattn_parser", config={"model": model})
    return nlp


def trees(doc):
    def head(token, sentence):
        return 0 if token.head == token else token.head.i - sentence.start + 1

    return [[(token.text, head(token, sentence), token.dep_) for token in sentence] for sentence in doc.sents]


def test_heads_and_relations(nlp):
    doc = nlp("The dog doesn't sleep. A cat wrote a book.")
    parse = nlp.get_pipe("msattn_parser").run
    words = [["The", "dog", "does", "n't", "sleep", "."], ["A", "cat", "wrote", "a", "book", "."]]
    expected = [
        [(word["word"], word["head"], word["relation"] if word["head"] else "ROOT") for word in sentence]
        for sentence in parse(words)
    ]
    assert trees(doc) == expected
    assert doc.has_annotation("DEP") and doc.has_annotation("SENT_START")


def test_tags(tmp_path):
    nlp = spacy.blank("en")
    nlp.add_pipe("msattn_parser", config={"model": saved(tmp_path, word_tags=TAGS)})
    doc = nlp("The dog  doesn't sleep in a house. A cat wrote a book of the author.")
    parse = nlp.get_pipe("msattn_parser").run
    sentences = [[token.text for token in sentence if not token.is_space] for sentence in doc.sents]
    words = [word for sentence in parse([{"words": words} for words in sentences]) for word in sentence]
    tokens = [token for token in doc if not token.is_space]
    assert [token.pos_ for token in tokens] == [word["upos"].replace("no UPOS", "") for word in words]
    assert [token.tag_ for token in tokens] == [word["xpos"] for word in words]
    assert [str(token.morph) or "_" for token in tokens] == [word["feats"] for word in words]
    assert [token.lemma_ for token in tokens] == [word["lemma"] for word in words]
    assert len({tuple(word[name] for name in TAGS) for word in words}) > 3
    assert doc[2].is_space and not doc[2].pos_ and not doc[2].lemma_


def test_many_documents(nlp):
    texts = ["A dog. The cat.", "", "  \n", " \n the dog  wrote\n\na book ", "dog", "a cat in the house. " * 5] * 3
    alone = [nlp(text) for text in texts]
    for doc, text, other in zip(nlp.pipe(texts, batch_size=4), texts, alone, strict=True):
        assert doc.text == text and trees(doc) == trees(other)
    spaces = alone[3]
    assert [token.dep_ for token in spaces if token.is_space] == ["dep"] * 3 and len(list(spaces.sents)) == 2


def test_a_merged_token_with_a_line_end(model):
    nlp = spacy.blank("en")
    nlp.add_pipe("entity_ruler").add_patterns([{"label": "animal", "pattern": "dog \n cat"}])
    nlp.add_pipe("merge_entities")
    nlp.add_pipe("msattn_parser", config={"model": model})
    first, second = nlp.pipe(["A dog \n cat wrote.", "A dog."])
    assert [token.text for token in first] == ["A", "dog \n cat", "wrote", "."] and second.has_annotation("DEP")


def test_sentences_of_another_component(model):
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer", config={"punct_chars": ["nothing"]})
    nlp.add_pipe("msattn_parser", config={"model": model, "decode": "eisner"})
    assert [len(sentence) for sentence in nlp("A dog. A cat.").sents] == [6]


@pytest.mark.parametrize(("stored", "used"), [("eisner", "eisner"), ("greedy", "mst")])
def test_decoder_of_the_checkpoint(tmp_path, stored, used):
    nlp = spacy.blank("en")
    nlp.add_pipe("msattn_parser", config={"model": saved(tmp_path, tree_decoder=stored)})
    doc = nlp("The dog wrote a book in the house and a cat sleeps with the author in a house.")
    parse = nlp.get_pipe("msattn_parser").run
    words = {"words": [token.text for token in doc]}
    heads = {decoder: [word["head"] for word in parse(words, decode=decoder)] for decoder in ("mst", "eisner")}
    assert [token.head.i + 1 if token.head != token else 0 for token in doc] == heads[used]
    assert heads["mst"] != heads["eisner"]


def test_saved_pipelines(nlp, tmp_path):
    nlp.to_disk(tmp_path)
    text = "The dog sleeps. A cat."
    assert trees(spacy.load(tmp_path)(text)) == trees(nlp(text))


def test_what_is_refused(model):
    with pytest.raises(spacy.util.ConfigValidationError, match=r"model\s.*required"):
        spacy.blank("en").add_pipe("msattn_parser")
    with pytest.raises(Exception, match="spaCy needs trees"):
        spacy.blank("en").add_pipe("msattn_parser", config={"model": model, "decode": "greedy"})
