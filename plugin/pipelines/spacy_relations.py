"""The component `"msattn_relations"` of spaCy's pipelines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from spacy.language import Language
from spacy.tokens import Doc, Span
from transformers import pipeline

from msattn.pipelines.spacy_component import SpacyComponent
from msattn.pipelines.text_pipeline import given

# The key of a document's `user_data`.
RELATIONS = "msattn_relations"


@Language.factory(
    "msattn_relations",
    default_config={
        **{"threshold": None, "pairs": None, "order": None, "max_length": None, "same_sentence": None},
        **{"batch_size": 32, "device": "cpu"},
    },
    requires=["doc.ents"],
    assigns=["doc._.relations"],
)
def make_relations(
    nlp: Language,
    name: str,
    model: str,
    threshold: float | None,
    pairs: list[Any] | str | None,
    order: str | None,
    max_length: int | None,
    same_sentence: bool | None,
    batch_size: int,
    device: str,
) -> SpacyRelations:
    """
    The component for `nlp.add_pipe("msattn_relations", config={"model": ...})`.

    Args:
        nlp (`spacy.Language`): The pipeline.
        name (`str`): The name of the component.
        model (`str`): A relation extractor: a folder, or a repository of the Hub.
        threshold (`float`, *optional*): Lowest probability of a relation; see [`RelationExtractionPipeline`].
        pairs (`list[tuple[str, str]]` or `"all"`, *optional*):
            The types of entities to pair, head first. Default: those of training.
        order (`str`, *optional*): `"text"` for heads before tails, or `"both"`. Default: that of training.
        max_length (`int`, *optional*): Maximum number of tokens of a window. Default: that of training.
        same_sentence (`bool`, *optional*):
            Whether to pair within sentences only: those of the document if it has any, else those of our rules.
            Default: as in training.
        batch_size (`int`): Texts that go through the model at once.
        device (`str`): Where the model runs, such as `"cuda:0"`.
    """
    options = given(threshold=threshold, pairs=pairs, order=order, max_length=max_length, same_sentence=same_sentence)
    return SpacyRelations(pipeline("relation-extraction", model=model, device=device, **options), batch_size)


class SpacyRelations(SpacyComponent):
    """
    Sets `doc._.relations`: the relations between the entities `doc.ents`, best first. Each is a dictionary with `head`
    and `tail` (spans of the document), `label` and `score`. Pairs that the model cannot read are left out, with a
    warning. `doc.user_data` has them as the pipeline gives them, so that documents can be saved, copied and sent
    between processes, and tokenized anew.
    """

    def read(self, docs: Sequence[Doc]) -> None:
        results = self.run(list(docs), batch_size=self.batch_size, on_error="skip")
        for doc, relations in zip(docs, results, strict=True):
            doc.user_data[RELATIONS] = relations


def _relations(doc: Doc) -> list[dict[str, Any]]:
    """The relations with spans of the document, which may have been tokenized anew, but not cut."""
    rows = doc.user_data.get(RELATIONS, [])
    found = [{**row, **{role: _span(doc, row[role]) for role in ("head", "tail")}} for row in rows]
    return [row for row in found if row["head"] is not None and row["tail"] is not None]


def _span(doc: Doc, entity: dict[str, Any]) -> Span | None:
    """An entity in the document; `None` if the text there is another one, as in a copy of a part."""
    span = doc.char_span(entity["start"], entity["end"], entity.get("label", ""), alignment_mode="expand")
    return span if doc.text[entity["start"] : entity["end"]] == entity["text"] else None


if not Doc.has_extension("relations"):
    Doc.set_extension("relations", getter=_relations)
