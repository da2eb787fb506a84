"""The page, built with Gradio."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files
from typing import Any

import gradio as gr
from gradio.components import Component

from msattn.app import answers
from msattn.app.answers import Reading
from msattn.app.checkpoints import Checkpoint, load_checkpoints
from msattn.app.entities import Entity, finds_entities, found, mark, marked_still, merged, unmark
from msattn.plots.encoders import texts_of
from msattn.plots.style import COLORS

# A text, a second one for a model of pairs, and what is marked in it where no tagger finds the entities.
EXAMPLES: Sequence[tuple[str, str, Sequence[str]]] = (
    (
        "Anna Weber, a spokeswoman for Siemens in Munich, Germany, said the plant would close. "
        "Paul Lang lives in Vienna and writes for the Associated Press.",
        "The plant was closed.",
        ("Anna Weber", "Siemens", "Munich", "Germany", "Paul Lang", "Vienna", "Associated Press"),
    ),
    ("The flood was caused by the heavy rain of the night.", "It rained.", ("flood", "rain")),
    (
        "The engine of the old car was built by a small company from Turin.",
        "Nobody has built the engine.",
        ("engine", "car", "company", "Turin"),
    ),
)
NOUNS = {
    "token-classification": "entities",
    "relation-extraction": "relations",
    "dependency-parsing": "dependency trees",
    "text-classification": "classes",
    "encoder": "attention",
}
# The visitor's own fonts: Gradio's default theme loads some from another server.
FONT, MONOSPACE = ("system-ui", "sans-serif"), ("ui-monospace", "monospace")
STYLE, SELECTION = (
    files("msattn.app").joinpath(name).read_text(encoding="utf-8") for name in ("page.css", "selection.js")
)

# The text that the tagger has read last, and the entities.
State = tuple[str, list[Entity]]


def launch(names: Sequence[str], lang: str | None = None, **options: Any) -> None:
    """
    Loads checkpoints and serves the page until it is interrupted.

    Args:
        names (`Sequence[str]`): Folders, or names on the Hub; one checkpoint of each task.
        lang (`str`, *optional*): The language of the rules for words, such as `"en"`.
        options: Arguments of Gradio's `launch`, such as `server_port`.

    Raises:
        UserError: A checkpoint cannot be loaded, two are of one task, or `lang` is given without a parser or tagger.

    Example:

    ```python
    >>> from msattn.app import launch

    >>> launch(["outputs/wnut17", "outputs/semeval"], server_port=7860)
    ```
    """
    page = build_page(load_checkpoints(names, lang))
    theme = gr.themes.Default(primary_hue="blue", font=FONT, font_mono=MONOSPACE)
    theme.set(block_info_text_color="*neutral_600")
    # Nothing of the page takes files, but Gradio's server would keep those that are sent to it.
    page.launch(
        theme=theme, css=STYLE, ssr_mode=False, footer_links=["gradio", "settings"], max_file_size=0, **options
    )


def build_page(checkpoints: Mapping[str, Checkpoint]) -> gr.Blocks:
    """
    The page of the checkpoints, with a section for all that they can show.

    Args:
        checkpoints (`Mapping[str, Checkpoint]`): See [`~msattn.app.checkpoints.load_checkpoints`].

    Returns:
        `gradio.Blocks`: The page. [`launch`] serves it with its fonts and style.
    """
    runs: dict[str, Any] = {task: checkpoint.run for task, checkpoint in checkpoints.items()}
    tagger, extract = runs.get("token-classification"), runs.get("relation-extraction")
    tagger = tagger if tagger is not None and finds_entities(tagger) else None
    typed = getattr(extract, "style", "plain") != "plain"
    title, classify = heading(checkpoints), runs.get("text-classification")
    texts = texts_of(classify.model.config) if classify else 1
    with gr.Blocks(title=f"{title} · msattn", analytics_enabled=False) as page:
        gr.Markdown(f"# {title}\nby {', '.join(one.short for one in checkpoints.values())}")
        text = gr.Textbox(
            EXAMPLES[0][0], label="Text", lines=3, max_lines=12, elem_id="text", info="Shift+Enter reads it, too."
        )
        second = gr.Textbox("", label="Second text, for a model of pairs", visible=texts != 1)
        label = gr.Textbox("", label="Type of the entity to mark", visible=typed)
        with gr.Row(visible=extract is not None):
            marks = gr.Button("Mark as entity", min_width=120)
            unmarks = gr.Button("Unmark", min_width=120)
        least = gr.Slider(0, 1, 0, step=0.05, label="Least probability of a relation", visible=extract is not None)
        reads = gr.Button("Read", variant="primary")
        samples = [[one[0]] for one in EXAMPLES]
        examples = gr.Dataset(label="Examples", components=[text], samples=samples, type="index", layout="gallery")
        shown = gr.HighlightedText(label="Entities", show_whitespaces=False, elem_classes="tags", visible=False)
        found_here = gr.HTML(elem_classes="answers", padding=False)
        state = gr.State(("", []))
        span = gr.JSON(visible=False)

        def read(text: str, second: str, known: State, least: float = 0.0) -> dict[Component, Any]:
            values: dict[Component, Any] = {shown: highlighted(text, [])}

            def answer() -> str:
                answers.check_text(text, second)
                entities = _known(text, known)
                if tagger is not None and text != known[0]:
                    entities = merged(found(tagger, text), entities)
                values.update({state: (text, entities), shown: highlighted(text, entities)})
                return answers.sections(checkpoints, Reading(text, second, entities, least))

            return {found_here: answers.answered(answer), **values}

        def change(
            text: str, known: State, changed: Callable[[list[Entity]], list[Entity]], label: str = ""
        ) -> dict[Component, Any]:
            values: dict[Component, Any] = {}

            def answer() -> str:
                answers.check_text(text, label)
                entities = changed(_known(text, known))
                # The entities are those of this text: the tagger has to read the text before anew.
                read = text if text == known[0] else ""
                values.update({state: (read, entities), shown: highlighted(text, entities)})
                return ""

            return {found_here: answers.answered(answer), **values}

        def on_mark(text: str, label: str, known: State, span: list[int]) -> Mapping:
            return change(text, known, lambda entities: mark(text, entities, span, label.strip()), label)

        def on_unmark(text: str, known: State, span: list[int]) -> Mapping:
            return change(text, known, lambda entities: unmark(entities, span))

        def on_example(number: int) -> Mapping:
            one, other, names = EXAMPLES[number]
            entities: list[Entity] = []
            if tagger is None and extract is not None and not typed:
                for name in names:
                    entities = mark(one, entities, (one.index(name), one.index(name) + len(name)))
            return {text: one, second: other if texts == 2 else "", state: ("", entities)}

        private: dict[str, Any] = {"api_visibility": "private"}
        quick = {**private, "js": SELECTION, "show_progress": "hidden"}
        outputs: list[Component] = [found_here, state, shown]
        marks.click(on_mark, [text, label, state, span], outputs, **quick)
        unmarks.click(on_unmark, [text, state, span], outputs, **quick)
        asks = {
            "fn": read,
            "inputs": [text, second, state, least],
            "outputs": outputs,
            "concurrency_limit": 1,
            **private,
        }
        gr.on([reads.click, text.submit, least.release], **asks)
        examples.click(on_example, [examples], [text, second, state], **private).then(**asks)
    return page


def heading(checkpoints: Mapping[str, Checkpoint]) -> str:
    """What the checkpoints find, in words."""
    nouns = [noun for task, noun in NOUNS.items() if task in checkpoints]
    if "token-classification" in checkpoints and not finds_entities(checkpoints["token-classification"].run):
        nouns[0] = "tags of words"
    *others, last = nouns
    return f"{', '.join(others)} and {last}".capitalize() if others else last.capitalize()


def highlighted(text: str, entities: Sequence[Entity]) -> gr.HighlightedText:
    """The entities in the text, with their types and probabilities; a colour for each type."""
    types = sorted({one["label"] for one in entities})
    spans, colors = [], {}
    for one in entities:
        name = one["label"] + (f" {one['score']:.2f}" if "score" in one else "")
        spans.append({"entity": name, "start": one["start"], "end": one["end"]})
        colors[name] = COLORS[types.index(one["label"]) % len(COLORS)]
    return gr.HighlightedText({"text": text, "entities": spans}, color_map=colors, visible=bool(spans))


def _known(text: str, known: State) -> list[Entity]:
    """The entities that still hold: all if the text is the same, or else those that a visitor has marked."""
    return known[1] if text == known[0] else marked_still(text, known[1])
