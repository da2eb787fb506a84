"""Answers of the models to a text, as the sections of the page."""

from __future__ import annotations

import base64
import html
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from transformers.utils import logging

from msattn.app.checkpoints import Checkpoint
from msattn.app.entities import Entity, finds_entities, found
from msattn.errors import UserError
from msattn.plots import FusedAttention, arc_diagram, attention_distances, fused_attention_html, relation_graph
from msattn.plots.encoders import encoder_of, texts_of

logger = logging.get_logger(__name__)

MOST_CHARACTERS = 5000
# A relation model reads every ordered pair of entities.
MOST_ENTITIES = 20
# The page of fused attention holds all weights: a megabyte for these.
MOST_TOKENS = 200
# What the pipeline reads of an entity.
SPAN = ("start", "end", "label")


@dataclass
class Reading:
    """
    The input of a visitor, and what the models found.

    Args:
        text (`str`): The text.
        second (`str`): The second text of a pair, for a classifier.
        entities (`list[Entity]`): The entities of the text.
        least (`float`): Relations with a lower probability are left out.
        found (`dict[str, Any]`): What is saved as JSON.
    """

    text: str
    second: str = ""
    entities: list[Entity] = field(default_factory=list)
    least: float = 0.0
    found: dict[str, Any] = field(default_factory=dict)


def check_text(text: str, *others: str) -> None:
    """
    Raises:
        UserError: The text is empty, or it or another input is longer than the page takes.
    """
    if not text.strip():
        raise UserError("There is no text: type a sentence or a paragraph.")
    if (most := max(map(len, (text, *others)))) > MOST_CHARACTERS:
        raise UserError(f"The text has {most:,} characters, and the page takes {MOST_CHARACTERS:,}: shorten it.")


def check_entities(entities: Sequence[Entity]) -> None:
    """
    Raises:
        UserError: There are too few entities for a relation, or more than the page takes.
    """
    if len(entities) < 2:
        count = ("no entity", "one entity")[len(entities)]
        raise UserError(f"There is {count} in the text: mark two or more, and the relations between them are read.")
    if len(entities) > MOST_ENTITIES:
        raise UserError(f"There are {len(entities)} entities, and the page takes {MOST_ENTITIES}: unmark some.")


def sections(checkpoints: Mapping[str, Checkpoint], reading: Reading) -> str:
    """All that the checkpoints say of a text, as HTML, and a link that saves it as JSON."""
    parts = [f"<h2>{title}</h2>{answered(answer)}" for title, answer in _answers(checkpoints, reading)]
    heads = answered(lambda: head_reach([*checkpoints.values()], reading.text))
    parts.append(f"<details><summary>How far the heads look</summary>{heads}</details>")
    found = {"text": reading.text, "entities": reading.entities, **reading.found}
    return "".join(parts) + _save("Save all as JSON", "answers.json", json.dumps(found, ensure_ascii=False, indent=2))


def _answers(checkpoints: Mapping[str, Checkpoint], reading: Reading) -> Iterator[tuple[str, Callable[[], str]]]:
    """The titles of the sections, and what makes them."""
    for task, (title, answer) in SECTIONS.items():
        run = checkpoints[task].run if task in checkpoints else None
        if run is not None and not finds_entities(run):
            yield title, partial(answer, run, reading)
    fused = [one for one in checkpoints.values() if getattr(one.model.config, "fusion_layers", 0)]
    fused.sort(key=lambda one: one is not checkpoints.get("relation-extraction"))
    yield from (("Fused attention", partial(fused_attention, one, reading)) for one in fused[:1])


def answered(answer: Callable[[], str]) -> str:
    """The result of a function or, if it fails, the reason in one sentence, as HTML that screen readers say aloud."""
    try:
        return answer()
    except UserError as error:
        message = str(error)
    except Exception:
        logger.exception("the page could not show a text")
        message = "Something went wrong here; the terminal of the page has the details."
    return f'<p class="sentence" role="alert">{html.escape(message)}</p>'


def words(tagger: Any, reading: Reading) -> str:
    """The words of a text with their tags above them."""
    reading.found["tags"] = found(tagger, reading.text)
    ruby = "".join(f" {html.escape(one['text'])}<rt>{html.escape(one['label'])}</rt>" for one in reading.found["tags"])
    return f"<ruby>{ruby}</ruby>"


def relations(extract: Any, reading: Reading) -> str:
    """
    The relations between the entities, best first, as a graph and as a table.

    Raises:
        UserError: There are too few or too many entities, or there is no relation.
    """
    check_entities(reading.entities)
    spans = [{name: one[name] for name in SPAN} for one in reading.entities]
    every = extract({"text": reading.text, "entities": spans}, on_error="return")
    every = [every] if isinstance(every, Mapping) else every
    errors = [one["error"] for one in every if "error" in one]
    reading.found["relations"] = triples = [one for one in every if one.get("score", -1) >= reading.least]
    if not triples:
        if errors:
            raise UserError(errors[0])
        least = f" with a probability of {reading.least:g} or more" if reading.least else ""
        raise UserError(f"The model finds no relation between these entities{least}.")
    rows = [(one["head"]["text"], one["label"], one["tail"]["text"], one["score"]) for one in triples]
    picture = _picture(relation_graph(triples), "relations.svg", "Graph of the relations; the table has them, too")
    page = picture + _table(("head", "relation", "tail", "score"), rows)
    if errors:
        page += f'<p class="sentence">{html.escape(f"{len(errors)} pairs are not read; the first: {errors[0]}")}</p>'
    return page


def trees(parse: Any, reading: Reading) -> str:
    """The dependency trees of a text, as pictures and as CoNLL-U."""
    reading.found["trees"] = sentences = parse(reading.text)
    conllu = parse.to_conllu(sentences)
    picture = _picture(arc_diagram(sentences), "trees.svg", "Dependency trees; they are below as CoNLL-U, too")
    return (
        f"{picture}<details><summary>CoNLL-U</summary><pre>{html.escape(conllu)}</pre>"
        f"{_save('Save CoNLL-U', 'trees.conllu', conllu)}</details>"
    )


def _texts(classify: Any, reading: Reading) -> dict[str, str]:
    """
    What a classifier reads.

    Raises:
        UserError: There is no second text for a model of pairs.
    """
    texts = {"text": reading.text}
    if reading.second.strip():
        texts["text_pair"] = reading.second
    if len(texts) < texts_of(classify.model.config):
        raise UserError("The model compares two texts: type the second one, too.")
    return texts


def classes(classify: Any, reading: Reading) -> str:
    """
    The probabilities of the classes; the score of a model with one output.

    Raises:
        UserError: The text has more tokens than the model reads, or there is no second one for a model of pairs.
    """
    texts = _texts(classify, reading)
    length, limit = len(classify.tokenizer(**texts, verbose=False)["input_ids"]), classify.tokenizer.model_max_length
    if length > limit:
        raise UserError(f"The text has {length} tokens, and the model reads {limit}: give a shorter one.")
    (answer,) = classify([texts], top_k=None)
    reading.found |= texts
    reading.found["classes"] = {one["label"]: one["score"] for one in answer}
    name = "score" if len(answer) == 1 else "probability"
    return _table(("class", name), list(reading.found["classes"].items()))


def fused_attention(checkpoint: Checkpoint, reading: Reading) -> str:
    """
    The attention of a multi-scale model, and of a relation model for its best pair: the interactive page in a frame.

    Raises:
        UserError: The text has too many tokens to draw, or there is no second one for a model of pairs.
    """
    given: dict[str, Any] = {"text": reading.text}
    run: Any = checkpoint.run
    task = getattr(run, "task", None)
    if task == "text-classification":
        given = _texts(run, reading)
    elif task == "relation-extraction":
        best = reading.found.get("relations")
        pair = (best[0]["head"], best[0]["tail"]) if best else reading.entities[:2]
        check_entities(pair)
        head, tail = ((one["start"], one["end"]) for one in pair)
        given |= {"head": head, "tail": tail, "types": tuple(one.get("label") for one in pair)}
        given["max_length"] = run.trained.get("max_length")
    attention = FusedAttention.from_model(checkpoint.model, checkpoint.tokenizer, **given)
    count = len(attention.tokens)
    if count > MOST_TOKENS:
        raise UserError(f"The text has {count} tokens, and {MOST_TOKENS} can be drawn: give a shorter one.")
    page = html.escape(fused_attention_html(attention))
    # Nothing in the frame reaches the page around it.
    return (
        f'<iframe class="fused" title="Fused attention" sandbox="allow-scripts" srcdoc="{page}" '
        f'style="height: {22 * count + 280}px"></iframe>'
    )


def head_reach(checkpoints: Sequence[Checkpoint], text: str) -> str:
    """
    How far the heads of encoders look, as a table of each: a row a layer, a column a head.

    Args:
        checkpoints (`Sequence[Checkpoint]`): The models and their tokenizers.
        text (`str`): The text, truncated to the limits of the models.
    """
    return "".join(answered(partial(_reach_of, one, text)) for one in checkpoints)


def _reach_of(checkpoint: Checkpoint, text: str) -> str:
    try:
        found = attention_distances(encoder_of(checkpoint.model), checkpoint.tokenizer, [(text,)])
    except UserError as error:
        raise UserError(f"{checkpoint.short}: {error}") from None
    rows = [(f"layer {layer}", *scales) for layer, scales in enumerate(found.scales)]
    caption = f"{checkpoint.short}: mean distance in tokens; uniform attention has {found.uniform_scale:.1f}"
    header = ["", *map(str, range(found.scales.shape[1]))]
    return _table(header, rows, caption, digits=1, most=found.scales.max() or 1.0)


SECTIONS: Mapping[str, tuple[str, Callable[[Any, Reading], str]]] = {
    "token-classification": ("Words and their tags", words),
    "relation-extraction": ("Relations", relations),
    "dependency-parsing": ("Dependency trees", trees),
    "text-classification": ("Class", classes),
}


def _table(
    header: Sequence[str], rows: Sequence[Sequence[Any]], caption: str = "", digits: int = 2, most: float = 1.0
) -> str:
    """A table as HTML, whose numbers are shaded by their shares of `most`."""

    def cell(value: Any) -> str:
        if isinstance(value, str):
            return f"<td>{html.escape(value)}</td>"
        return f'<td style="--share: {min(1, max(0, value / most)):.2f}">{value:.{digits}f}</td>'

    head = "".join(f'<th scope="col">{name}</th>' for name in header)
    body = "".join(f"<tr>{''.join(map(cell, row))}</tr>" for row in rows)
    label = html.escape(caption or "Table")
    title = f"<caption>{label}</caption>" if caption else ""
    table = f"<table>{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f'<div class="scrolled" tabindex="0" role="group" aria-label="{label}">{table}</div>'


def _picture(svg: str, file: str, label: str) -> str:
    """A picture as HTML. A wide one is scrolled, by the arrow keys, too."""
    box = f'<div class="scrolled picture" tabindex="0" role="group" aria-label="{html.escape(label)}">{svg}</div>'
    return box + _save("Save SVG", file, svg)


def _save(title: str, file: str, content: str) -> str:
    """A link that saves a file, which is in the link itself."""
    data = base64.b64encode(content.encode("utf-8")).decode("ascii")
    return f'<p><a download="{file}" href="data:application/octet-stream;base64,{data}">{title}</a></p>'
