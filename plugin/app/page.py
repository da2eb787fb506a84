"""The page, built with Gradio."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files
from typing import Any

import gradio as gr
from gradio.components import Component

from msattn.app import answers
from msattn.app.checkpoints import Checkpoint, load_checkpoints
from msattn.app.entities import Entity, finds_entities, found, mark, marked_still, merged, unmark
from msattn.app.panels import Reading, answered, build_panels, empty_note, highlighted
from msattn.plots.encoders import short_names

TEXT = "Steve Jobs founded Apple in California. The flood was caused by the heavy rain."
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
        lang (`str`, *optional*): The language of the parser's rules for words, such as `"en"`.
        options: Arguments of Gradio's `launch`, such as `server_port`.

    Raises:
        UserError: A checkpoint cannot be loaded, two are of one task, or `lang` is given without a parser.

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
    The page of the checkpoints, with a panel for all that they can show.

    Args:
        checkpoints (`Mapping[str, Checkpoint]`): See [`~msattn.app.checkpoints.load_checkpoints`].

    Returns:
        `gradio.Blocks`: The page. [`launch`] serves it with its fonts and style.
    """
    runs: dict[str, Any] = {task: checkpoint.run for task, checkpoint in checkpoints.items()}
    tagger, extract = runs.get("token-classification"), runs.get("relation-extraction")
    tags_words = tagger is not None and not finds_entities(tagger)
    tagger = None if tags_words else tagger
    names = short_names([one.name for one in checkpoints.values()])
    with gr.Blocks(title="msattn", analytics_enabled=False) as page:
        gr.Markdown(f"# msattn\n{', '.join(names)}")
        text = gr.Textbox(TEXT, label="Text", lines=3, max_lines=12, elem_id="text", info="Shift+Enter reads it, too.")
        second = gr.Textbox(
            "", label="Second text, for a model of pairs", visible="text-classification" in checkpoints
        )
        label = gr.Textbox(
            "", label="Type of the entity to mark", visible=getattr(extract, "style", "plain") != "plain"
        )
        with gr.Row(visible=extract is not None):
            marks = gr.Button("Mark as entity", min_width=120)
            unmarks = gr.Button("Unmark", min_width=120)
        least = gr.Slider(0, 1, 0, step=0.05, label="Least probability of a relation", visible=extract is not None)
        reads = gr.Button("Read", variant="primary")
        note = empty_note()
        entities_shown = gr.HighlightedText(
            label="Entities",
            show_whitespaces=False,
            elem_classes="tags",
            visible=extract is not None or tagger is not None,
        )
        panels = build_panels(checkpoints, tags_words)
        state = gr.State(("", []))
        span = gr.JSON(visible=False)

        def read(text: str, second: str, known: State, least: float = 0.0) -> dict[Component, Any]:
            values: dict[Component, Any] = {note: None, entities_shown: None}
            for panel in panels:
                values |= panel.empty()

            def answer() -> dict[Component, Any]:
                answers.check_text(text, second)
                entities = _known(text, known)
                if tagger is not None and text != known[0]:
                    entities = merged(found(tagger, text), entities)
                shown = {state: (text, entities), entities_shown: highlighted(text, entities)}
                reading = Reading(text, second, entities, extract, least)
                for panel in panels:
                    shown |= panel.values(reading)
                return shown

            return {**values, **answered(answer, note)}

        def change(
            text: str, known: State, changed: Callable[[list[Entity]], list[Entity]], label: str = ""
        ) -> Mapping:
            def answer() -> dict[Component, Any]:
                answers.check_text(text, label)
                entities = changed(_known(text, known))
                # The entities are those of this text: the tagger has to read the text before anew.
                read = text if text == known[0] else ""
                return {note: None, state: (read, entities), entities_shown: highlighted(text, entities)}

            return answered(answer, note)

        def on_mark(text: str, label: str, known: State, span: list[int]) -> Mapping:
            return change(text, known, lambda entities: mark(text, entities, span, label.strip()), label)

        def on_unmark(text: str, known: State, span: list[int]) -> Mapping:
            return change(text, known, lambda entities: unmark(entities, span))

        shown: list[Component] = [note, state, entities_shown]
        private: dict[str, Any] = {"api_visibility": "private"}
        quick = {**private, "js": SELECTION, "show_progress": "hidden"}
        marks.click(on_mark, [text, label, state, span], shown, **quick)
        unmarks.click(on_unmark, [text, state, span], shown, **quick)
        outputs = [*shown, *(part for panel in panels for part in panel.empty())]
        asks = [reads.click, text.submit, least.release]
        gr.on(asks, read, [text, second, state, least], outputs, concurrency_limit=1, **private)
    return page


def _known(text: str, known: State) -> list[Entity]:
    """The entities that still hold: all if the text is the same, or else those that a visitor has marked."""
    return known[1] if text == known[0] else marked_still(text, known[1])
