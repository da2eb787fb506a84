r"""
Draws what three checkpoints find in a paragraph: entities, their relations, and the tree of the last sentence.
README's picture is that of the default text. The relation model is that of docs/relations.md (CoNLL-04). The tagger
learns CoNLL-04's entities (F1 75.5 on the development file, 7 of whose 120 sentences it has seen), the parser ParTUT
(UAS 87.9, LAS 84.8):

    python docs/site/reading_picture.py --tags train.json > train.conll
    python docs/site/reading_picture.py --tags dev.json > dev.conll
    python run_tagging.py --model_name_or_path sentence-transformers/all-MiniLM-L6-v2 --train_file train.conll \
        --validation_file dev.conll --do_train --do_eval --num_train_epochs 3 --learning_rate 3e-4 --warmup_steps 0.1 \
        --per_device_train_batch_size 32 --train_sampling_strategy group_by_length --save_strategy no --seed 1 \
        --output_dir TAGGER
    make model-parser-partut DATA=folder ENCODER=sentence-transformers/all-MiniLM-L6-v2
    python docs/site/reading_picture.py TAGGER RELATIONS outputs/models/parser-partut docs/reading.svg
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any

from transformers import pipeline

from msattn.plots import arc_diagram, relation_graph
from msattn.plots.arcs import MARGIN, STYLE
from msattn.plots.style import COLORS, INK, MUTED

TEXT = (
    "Anna Weber, a spokeswoman for Siemens in Munich, Germany, said the plant would close. "
    "Paul Lang lives in Vienna and writes for the Associated Press."
)
LINE, LETTERS = 26, 76


def lines_of(text: str, entities: list[dict[str, Any]]) -> Iterator[str]:
    """The lines of the text, as SVG: entities in blue, with their types."""
    line, letters, end = "", 0, 0
    for one in [*entities, {"start": len(text), "end": len(text), "entity_group": ""}]:
        plain = re.findall(r"\S+\s*|\s+", text[end : one["start"]])
        name = escape(text[one["start"] : one["end"]])
        kind = f'<tspan fill="{MUTED}" font-size="11"> {one["entity_group"]}</tspan>'
        marked = f'<tspan fill="{COLORS[0]}" font-weight="bold">{name}</tspan>{kind}' if name else ""
        for part, length in [
            *((escape(word), len(word) * word[0].isalnum()) for word in plain),
            (marked, len(name) + 4),
        ]:
            if letters + length > LETTERS:
                yield line
                line, letters = "", 0
            line, letters = line + part, letters + length
        end = one["end"]
    yield line


def print_tags(path: str) -> None:
    """The words of SpERT's JSON with the tags of their entities."""
    for row in json.loads(Path(path).read_text(encoding="utf-8")):
        tags = ["O"] * len(row["tokens"])
        for one in row["entities"]:
            inside = [f"I-{one['type']}"] * (one["end"] - one["start"] - 1)
            tags[one["start"] : one["end"]] = [f"B-{one['type']}", *inside]
        print(*(f"{word}\t{tag}" for word, tag in zip(row["tokens"], tags, strict=True)), "", sep="\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("tagger", "relations", "parser", "output"):
        parser.add_argument(name, nargs="?")
    parser.add_argument("--text", default=TEXT)
    parser.add_argument("--tags", metavar="JSON")
    given = parser.parse_args()
    if given.tags:
        return print_tags(given.tags)
    entities = pipeline("token-classification", model=given.tagger, aggregation_strategy="first")(given.text)
    triples = pipeline("relation-extraction", model=given.relations)({"text": given.text, "entities": entities})
    tree = pipeline("dependency-parsing", model=given.parser, lang="en")(given.text)[-1]
    for one in triples:
        print(one["head"]["text"], one["label"], one["tail"]["text"], f"{one['score']:.2f}")
    lines = list(lines_of(given.text, entities))
    height, width, parts = LINE * (len(lines) + 0.25), 0.0, []
    for number, line in enumerate(lines, 1):
        parts.append(f'<text x="{MARGIN}" y="{LINE * number}" font-size="15" fill="{INK}">{line}</text>')
    for picture in (relation_graph(triples), arc_diagram(tree)):
        wide, high = (float(size) for size in re.search(r'width="([\d.]+)" height="([\d.]+)"', picture).groups())
        parts.append(picture.replace("<svg ", f'<svg y="{height:.1f}" ', 1))
        width, height = max(width, wide), height + high - MARGIN
    parts.insert(0, f'<style>{STYLE}</style>\n<rect width="100%" height="100%" fill="#ffffff"/>')
    size = f'viewBox="0 0 {width:.1f} {height:.1f}" width="{width:.1f}" height="{height:.1f}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" class="arcs" {size} font-family="DejaVu Sans, sans-serif" '
    picture = "\n".join([f'{head}xml:space="preserve">', *parts, "</svg>\n"])
    Path(given.output).write_text(picture, encoding="utf-8")


if __name__ == "__main__":
    main()
