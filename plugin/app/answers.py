"""Answers of the models to a text, and pictures of them, for the page."""

from __future__ import annotations

import base64
import html
from collections.abc import Mapping, Sequence
from io import BytesIO
from typing import Any

from transformers import Pipeline

from msattn.app.checkpoints import Checkpoint
from msattn.app.entities import Entity, check_length
from msattn.errors import UserError
from msattn.plots import (
    FusedAttention,
    arc_diagram,
    attention_distances,
    fused_attention_html,
    plot_heads,
    relation_graph,
)
from msattn.plots.encoders import encoder_of, short_names
from msattn.plots.heads import distance_table
from msattn.plots.style import picture_style

MOST_CHARACTERS = 5000
# A relation model reads every ordered pair of entities.
MOST_ENTITIES = 20
# The page of fused attention holds all weights: a megabyte for these.
MOST_TOKENS = 200
# What the pipeline reads of an entity.
SPAN = ("start", "end", "label")


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


def relations(extract: Pipeline, text: str, entities: Sequence[Entity]) -> list[dict[str, Any]]:
    """
    The relations between entities, best first.

    Args:
        extract (`Pipeline`): A pipeline `"relation-extraction"`.
        text (`str`): The text.
        entities (`Sequence[Entity]`): Its entities.

    Raises:
        UserError: There are too few or too many entities.
    """
    check_entities(entities)
    return extract({"text": text, "entities": [{name: one[name] for name in SPAN} for one in entities]})


def relation_picture(found: Sequence[Mapping[str, Any]]) -> str:
    """The graph of relations, as HTML."""
    return _scrolled(relation_graph(found), "Graph of the relations; the table has them, too")


def relation_table(found: Sequence[Mapping[str, Any]]) -> str:
    """Head, relation, tail and score of each relation, as an HTML table."""
    rows = [(one["head"]["text"], one["label"], one["tail"]["text"], f"{one['score']:.2f}") for one in found]
    cells = ("".join(f"<td>{html.escape(cell)}</td>" for cell in row) for row in rows)
    head = "".join(f'<th scope="col">{name}</th>' for name in ("head", "relation", "tail", "score"))
    body = "".join(f"<tr>{row}</tr>" for row in cells)
    return f'<table class="relations"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'


def trees(parse: Pipeline, text: str) -> tuple[str, str]:
    """The dependency trees of a text, as HTML and as CoNLL-U."""
    sentences = parse(text)
    picture = _scrolled(arc_diagram(sentences), "Dependency trees; they are below as CoNLL-U, too")
    return picture, parse.to_conllu(sentences)


def classes(classify: Pipeline, text: str, second: str = "") -> dict[str, float]:
    """
    The probabilities of the classes; the score of a model with one output.

    Args:
        classify (`Pipeline`): A pipeline `"text-classification"`.
        text (`str`): The text.
        second (`str`, *optional*): The second text of a pair.

    Raises:
        UserError: The text has more tokens than the model reads.
    """
    texts = [text, second] if second.strip() else [text]
    check_length(classify, *texts)
    (answer,) = classify([dict(zip(("text", "text_pair"), texts, strict=False))], top_k=None)
    return {one["label"]: one["score"] for one in answer}


def fused_attention(checkpoint: Checkpoint, text: str, pair: Sequence[Entity] = ()) -> str:
    """
    The attention of a multi-scale model, as HTML: the interactive page in a frame.

    Args:
        checkpoint (`Checkpoint`): The model and its tokenizer.
        text (`str`): The text.
        pair (`Sequence[Entity]`, *optional*): Head and tail, for a relation model.

    Raises:
        UserError: The text has too many tokens to draw.
    """
    given: dict[str, Any] = {}
    if pair:
        head, tail = ((one["start"], one["end"]) for one in pair)
        given = {"head": head, "tail": tail, "types": tuple(one.get("label") for one in pair)}
    attention = FusedAttention.from_model(checkpoint.model, checkpoint.tokenizer, text, **given)
    count = len(attention.tokens)
    if count > MOST_TOKENS:
        raise UserError(f"The text has {count} tokens, and {MOST_TOKENS} can be drawn: give a shorter one.")
    page = html.escape(fused_attention_html(attention))
    # Nothing in the frame reaches the page around it.
    return (
        f'<iframe class="fused" title="Fused attention" sandbox="allow-scripts" srcdoc="{page}" '
        f'style="height: {22 * count + 280}px"></iframe>'
    )


def head_reach(checkpoints: Sequence[Checkpoint], text: str) -> tuple[str, str, str]:
    """
    How far the heads of encoders look.

    Args:
        checkpoints (`Sequence[Checkpoint]`): The models and their tokenizers.
        text (`str`): The text, truncated to the limits of the models.

    Returns:
        `tuple[str, str, str]`: The picture as HTML, a Markdown table, and which models have no attention to show.

    Raises:
        UserError: No model returns attention maps, or the text has one token.
    """
    found, names, refused = [], [], []
    for name, one in zip(short_names([one.name for one in checkpoints]), checkpoints, strict=True):
        try:
            found.append(attention_distances(encoder_of(one.model), one.tokenizer, [(text,)]))
            names.append(name)
        except UserError as error:
            refused.append(f"{name}: {error}")
    if not found:
        raise UserError(" ".join(refused))
    buffer = BytesIO()
    figure = plot_heads(found, titles=names)
    with picture_style():
        figure.savefig(buffer, format="svg")
    data = base64.b64encode(buffer.getvalue()).decode("ascii")
    width = 72 * figure.get_figwidth()
    picture = f'<img alt="" src="data:image/svg+xml;base64,{data}" style="width: {width:.0f}px">'
    table = distance_table(found, names)
    return _scrolled(picture, "Distances of attention; the table has their means"), table, " ".join(refused)


def sentence(message: str) -> str:
    """A sentence to the visitor, as HTML that screen readers say aloud."""
    return f'<p class="sentence" role="alert">{html.escape(message)}</p>'


def _scrolled(picture: str, label: str) -> str:
    """A picture as HTML. A wide one is scrolled, by the arrow keys, too."""
    return f'<div class="picture" tabindex="0" role="group" aria-label="{html.escape(label)}">{picture}</div>'
