"""The component `"msattn_relations"` of spaCy's pipelines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from spacy.language import Language
from spacy.tokens import Doc
from transformers import pipeline

from msattn.pipelines.spacy_component import SpacyComponent


@Language.factory(
    "msattn_relations",
    default_config={"threshold": None, "pairs": None, "batch_size": 32, "device": "cpu"},
    requires=["doc.ents"],
    assigns=["doc._.relations"],
)
def make_relations(
    nlp: Language,
    name: str,
    model: str,
    threshold: float | None,
    pairs: list[Any] | None,
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
        pairs (`list[tuple[str, str]]`, *optional*): The types of entities to pair, head first. Default: all pairs.
        batch_size (`int`): Texts that go through the model at once.
        device (`str`): Where the model runs, such as `"cuda:0"`.
    """
    options = {"threshold": threshold, "pairs": pairs}
    given = {option: value for option, value in options.items() if value is not None}
    return SpacyRelations(pipeline("relation-extraction", model=model, device=device, **given), batch_size)


class SpacyRelations(SpacyComponent):
    """
    Sets `doc._.relations`: the relations between the entities `doc.ents`, best first. Each is a dictionary with `head`
    and `tail` (spans of the document), `label` and `score`. Pairs that the model cannot read are left out, with a
    warning.
    """

    def read(self, docs: Sequence[Doc]) -> None:
        results = self.run(list(docs), batch_size=self.batch_size, on_error="skip")
        for doc, relations in zip(docs, results, strict=True):
            spans = {(entity.start_char, entity.end_char): entity for entity in doc.ents}
            doc._.relations = [
                relation | {role: spans[relation[role]["start"], relation[role]["end"]] for role in ("head", "tail")}
                for relation in relations
            ]


if not Doc.has_extension("relations"):
    Doc.set_extension("relations", default=[])
