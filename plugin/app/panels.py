"""The parts of the page that show answers, one for each thing that the checkpoints find."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import gradio as gr
from gradio.components import Component
from transformers import Pipeline
from transformers.utils import logging

from msattn.app import answers
from msattn.app.checkpoints import Checkpoint
from msattn.app.entities import Entity, found
from msattn.errors import UserError

logger = logging.get_logger(__name__)


@dataclass
class Reading:
    """
    The input of a visitor.

    Args:
        text (`str`): The text.
        second (`str`): The second text of a pair, for a classifier.
        entities (`list[Entity]`): The entities of the text.
        extract (`Pipeline`, *optional*): A pipeline `"relation-extraction"`.
        least (`float`, *optional*, defaults to 0.0): Relations with a lower probability are left out.
    """

    text: str
    second: str
    entities: list[Entity]
    extract: Pipeline | None = None
    least: float = 0.0

    @cached_property
    def relations(self) -> list[dict[str, Any]]:
        """The relations between the entities, which several panels show."""
        if self.extract is None:
            return []
        found = answers.relations(self.extract, self.text, self.entities)
        return [relation for relation in found if relation["score"] >= self.least]


class Panel(NamedTuple):
    """
    A part of the page.

    Args:
        note (`Component`): Says in a sentence what is wrong.
        parts (`Sequence[Component]`): What is shown.
        answer (`Callable`): A [`Reading`] to the values of the parts, and maybe of the note.
    """

    note: Component
    parts: Sequence[Component]
    answer: Callable[[Reading], Mapping[Component, Any]]

    def values(self, reading: Reading) -> dict[Component, Any]:
        """The values of note and parts."""
        return {**self.empty(), **answered(lambda: self.answer(reading), self.note)}

    def empty(self) -> dict[Component, Any]:
        """Nothing in note and parts."""
        return dict.fromkeys([self.note, *self.parts])


def answered(answer: Callable[[], Mapping[Component, Any]], note: Component) -> Mapping[Component, Any]:
    """The result of a function or, if it fails, the reason in one sentence."""
    try:
        return answer()
    except UserError as error:
        return {note: answers.sentence(str(error))}
    except Exception:
        logger.exception("the page could not show a text")
        return {note: answers.sentence("Something went wrong here; the terminal of the page has the details.")}


def build_panels(checkpoints: Mapping[str, Checkpoint], tags_words: bool) -> list[Panel]:
    """
    Adds the panels to the page that is being built.

    Args:
        checkpoints (`Mapping[str, Checkpoint]`): See [`~msattn.app.checkpoints.load_checkpoints`].
        tags_words (`bool`): Whether there is a tagger of words, not of entities.

    Returns:
        `list[Panel]`: The panels, from the top down.
    """
    panels = [_words(checkpoints["token-classification"].run)] if tags_words else []
    panels += [build(checkpoints[task].run) for task, build in BUILDERS.items() if task in checkpoints]
    fused = [one for one in checkpoints.values() if getattr(one.model.config, "fusion_layers", 0)]
    return [*panels, *map(_fused_attention, fused[:1]), _head_reach([*checkpoints.values()])]


def _words(tagger: Any) -> Panel:
    note = _heading("Words and their tags")
    words = gr.HighlightedText(show_label=False, show_whitespaces=False, elem_classes="tags")
    return Panel(note, [words], lambda reading: {words: highlighted(reading.text, found(tagger, reading.text))})


def _relations(extract: Any) -> Panel:
    note = _heading("Relations")
    graph, table = gr.HTML(), gr.HTML()

    def answer(reading: Reading) -> dict[Component, Any]:
        if not reading.relations:
            least = f" with a probability of {reading.least:g} or more" if reading.least else ""
            raise UserError(f"The model finds no relation between these entities{least}.")
        return {
            graph: answers.relation_picture(reading.relations),
            table: answers.relation_table(reading.relations),
        }

    return Panel(note, [graph, table], answer)


def _trees(parse: Any) -> Panel:
    note = _heading("Dependency trees")
    picture = gr.HTML()
    with gr.Accordion("CoNLL-U", open=False):
        conllu = gr.Textbox(show_label=False, lines=3, max_lines=20, interactive=False, buttons=["copy"])

    def answer(reading: Reading) -> dict[Component, Any]:
        return dict(zip((picture, conllu), answers.trees(parse, reading.text), strict=True))

    return Panel(note, [picture, conllu], answer)


def _classes(classify: Any) -> Panel:
    note = _heading("Class")
    classes = gr.Label(show_label=False)
    single = classify.model.config.num_labels == 1

    def answer(reading: Reading) -> dict[Component, Any]:
        scores = answers.classes(classify, reading.text, reading.second)
        return {classes: f"{next(iter(scores.values())):.2f}" if single else scores}

    return Panel(note, [classes], answer)


def _fused_attention(checkpoint: Checkpoint) -> Panel:
    note = _heading("Fused attention")
    page = gr.HTML()

    def answer(reading: Reading) -> dict[Component, Any]:
        pair: Sequence[Entity] = ()
        if reading.extract is checkpoint.run is not None:
            best = reading.relations[:1]
            pair = (best[0]["head"], best[0]["tail"]) if best else reading.entities[:2]
        return {page: answers.fused_attention(checkpoint, reading.text, pair)}

    return Panel(note, [page], answer)


def _head_reach(checkpoints: list[Checkpoint]) -> Panel:
    note = _heading("How far the heads look")
    picture = gr.HTML()
    with gr.Accordion("Table", open=False):
        table = gr.Markdown()

    def answer(reading: Reading) -> dict[Component, Any]:
        drawing, means, refused = answers.head_reach(checkpoints, reading.text)
        return {picture: drawing, table: means, note: answers.sentence(refused) if refused else None}

    return Panel(note, [picture, table], answer)


BUILDERS: Mapping[str, Callable[[Any], Panel]] = {
    "relation-extraction": _relations,
    "dependency-parsing": _trees,
    "text-classification": _classes,
}


def highlighted(text: str, entities: Sequence[Entity]) -> dict[str, Any]:
    """The value of Gradio's `HighlightedText`."""
    spans = [{"entity": one["label"], "start": one["start"], "end": one["end"]} for one in entities]
    return {"text": text, "entities": spans}


def _heading(title: str) -> Component:
    gr.Markdown(f"## {title}")
    return empty_note()


def empty_note() -> Component:
    """Takes the place of a sentence, and none without one."""
    return gr.HTML(elem_classes="note")
