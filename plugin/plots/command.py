"""The commands `msattn plot` and `msattn doubt`."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Any

from msattn import plots
from msattn.command_line import user_mistakes
from msattn.data.relation_rows import TAG, relation_row
from msattn.loading import load_pipeline, load_trained
from msattn.plots.doubt import write_doubtful
from msattn.plots.encoders import load_encoder, read_texts, short_names
from msattn.plots.heads import distance_table


def draw_fused(args: argparse.Namespace) -> None:
    """the words and phrases that a multi-scale model attends to in a sentence (.html)"""
    _, model, tokenizer = load_trained(args.model)
    row = relation_row({"text": args.text}, "--text") if TAG.search(args.text) else {"text": args.text}
    types = args.types or (None, None)
    attention = plots.FusedAttention.from_model(
        model, tokenizer, row["text"], row.get("head"), row.get("tail"), types, text_pair=args.text_pair
    )
    plots.fused_attention_html(attention, args.output)


def draw_errors(args: argparse.Namespace) -> None:
    """a page to browse the errors of a relation model; a multi-scale MODEL shows its attention (.html)"""
    loaded = load_trained(args.model)[1:] if args.model else ()
    print(f"{args.output}: {plots.error_browser(args.file, args.output, *loaded)} errors")


def draw_trees(args: argparse.Namespace) -> None:
    """the dependency trees of a text (.svg)"""
    plots.arc_diagram(load_pipeline("dependency-parsing", args.model)(args.text, lang=args.lang), args.output)


def draw_relations(args: argparse.Namespace) -> None:
    """the relation of the entities <e1>..</e1> and <e2>..</e2> in a text (.svg)"""
    text = args.text
    if args.types:
        text = {"text": text, "head_type": args.types[0], "tail_type": args.types[1]}
    plots.relation_graph([load_pipeline("relation-extraction", args.model)(text)], args.output)


def draw_maps(args: argparse.Namespace) -> None:
    """the mean attention of encoders in a sentence or a pair, side by side (.png, .svg)"""
    found = [plots.attention_maps(*load_encoder(name), *args.text) for name in args.model]
    layers, heads = (slice(None) if place is None else [place] for place in (args.layer, args.head))
    means = [maps[layers][:, heads].mean(dim=(0, 1)).cpu() for maps, _ in found]
    plots.plot_attention_maps(means, [tokens for _, tokens in found], args.output, short_names(args.model))


def draw_heads(args: argparse.Namespace) -> None:
    """the mean distance at which each head of encoders looks (.png, .svg)"""
    texts, titles = read_texts(args.file), short_names(args.model)
    found = [plots.attention_distances(*load_encoder(name), texts) for name in args.model]
    print(distance_table(found, titles))
    plots.plot_heads(found, args.output, titles)


MODEL = {"help": "a local folder or a name on the Hub"}
MODELS = {"nargs": "+", "help": "local folders or names on the Hub"}
TEXT = {"required": True, "help": "a text; entities are marked by <e1>..</e1> and <e2>..</e2>"}
PAIR = {"help": "the second text, for a classifier of pairs"}
TYPES = {"nargs": 2, "metavar": ("E1", "E2"), "help": "types of the entities, if the model's markers name them"}
LANG: dict[str, Any] = {"help": "language of the rules that split raw text, such as en"}
PLACE = {"type": int, "help": "number from 0 (default: the mean of all)"}
# Function and arguments of each kind, all of which have --output.
KINDS: dict[str, tuple[Callable[[argparse.Namespace], None], dict[str, dict[str, Any]]]] = {
    "fused": (draw_fused, {"model": MODEL, "--text": TEXT, "--text_pair": PAIR, "--types": TYPES}),
    "errors": (
        draw_errors,
        {"model": {**MODEL, "nargs": "?"}, "--file": {"required": True, "help": "test_predictions.jsonl"}},
    ),
    "trees": (draw_trees, {"model": MODEL, "--text": TEXT, "--lang": LANG}),
    "relations": (draw_relations, {"model": MODEL, "--text": TEXT, "--types": TYPES}),
    "maps": (draw_maps, {"model": MODELS, "--text": {**TEXT, "nargs": "+"}, "--layer": PLACE, "--head": PLACE}),
    "heads": (draw_heads, {"model": MODELS, "--file": {"required": True, "help": "sentences, or a table of them"}}),
}


def plot(argv: Sequence[str] | None = None) -> None:
    """Draws a picture: `msattn plot KIND MODEL ...`."""
    parser = argparse.ArgumentParser("msattn plot", description="Draw a picture.", allow_abbrev=False)
    kinds = parser.add_subparsers(metavar="KIND", required=True)
    for name, (draw, arguments) in KINDS.items():
        kind = kinds.add_parser(name, help=draw.__doc__, description=draw.__doc__, allow_abbrev=False)
        kind.set_defaults(draw=draw)
        for argument, options in arguments.items():
            kind.add_argument(argument, **options)
        kind.add_argument("--output", required=True, help="the file to write")
    args = parser.parse_args(argv)
    with user_mistakes():
        args.draw(args)


def doubt(argv: Sequence[str] | None = None) -> None:
    """Writes sentences worth annotating: `msattn doubt MODEL FILE`."""
    text = "Write the sentences that a parser is least sure of, with its sure arcs, for annotation."
    parser = argparse.ArgumentParser("msattn doubt", description=text, allow_abbrev=False)
    parser.add_argument("model", help="parser: a folder of run_parsing.py, or a name on the Hub")
    parser.add_argument("file", help="sentences in CoNLL-U, or raw text (.txt); those with heads are left out")
    parser.add_argument("--output", required=True, help="the .conllu file to write")
    parser.add_argument("--top", type=int, default=50, help="number of sentences (default: 50)")
    parser.add_argument("--by", choices=["probability", "loss"], default="probability", help="of the tree, or errors")
    parser.add_argument("--sure", type=float, default=0.95, help="fill in arcs at least so probable (default: 0.95)")
    parser.add_argument("--similarity", type=float, default=0.5, help="most words that two sentences share, 0 to 1")
    parser.add_argument("--lang", **LANG)
    parser.add_argument("--word_tokenizer", help="splits raw text in their place: spacy:fr, stanza:fr, udpipe:FILE")
    args = vars(parser.parse_args(argv))
    with user_mistakes():
        print(write_doubtful(**args))
