"""
What a relation model of CoNLL-04 finds in three paragraphs that we wrote (paragraphs.json), with 38 triples judged by
hand. `--all_pairs` asks for all pairs of entities in windows as long as the model takes, as versions up to 0.2 did.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from transformers import pipeline

import msattn  # noqa: F401  (registers the pipeline)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=" ".join(__doc__.split()))
    parser.add_argument("model", help="checkpoint of run_re.py, trained on CoNLL-04")
    parser.add_argument("--all_pairs", action="store_true", help="ask for pairs that training had none of, too")
    parser.add_argument("--threshold", type=float, help="lowest probability of a relation; default: that of the model")
    return parser.parse_args()


def main() -> None:
    arguments = parse_arguments()
    options = (
        {"pairs": "all", "order": "both", "same_sentence": False, "max_length": 512} if arguments.all_pairs else {}
    )
    if arguments.threshold is not None:
        options["threshold"] = arguments.threshold
    extract = pipeline("relation-extraction", model=arguments.model, device="cpu", **options)
    found = right = known = 0
    for paragraph in json.loads(Path(__file__).with_name("paragraphs.json").read_text(encoding="utf-8")):
        entities: list[list[dict[str, str]]] = []
        names: dict[str, str] = {}
        for kind, of_kind in paragraph["entities"].items():
            for mentions in of_kind:
                first, *_ = each = mentions.split("|")
                entities.append([{"name": name, "label": kind} for name in each])
                names |= dict.fromkeys(each, first)
        gold, given = set(paragraph["triples"]), set()
        for relation in extract({"text": paragraph["text"], "entities": entities}):
            head, tail = (names[relation[role]["text"]] for role in ("head", "tail"))
            given.add(triple := f"{head}|{relation['label']}|{tail}")
            print(f"{'+' if triple in gold else '-'} {relation['score']:.2f} {triple.replace('|', ' | ')}")
        print(f"{paragraph['subject']}: {len(given & gold)} of {len(given)} triples are right, of {len(gold)}.\n")
        found, right, known = found + len(given), right + len(given & gold), known + len(gold)
    print(f"All: {right} of {found} triples are right, of {known}.")


if __name__ == "__main__":
    main()
