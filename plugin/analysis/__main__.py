"""Draws what a multi-scale model attends to in a sentence: `python -m msattn.analysis --help`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from transformers import AutoConfig, AutoTokenizer

import msattn
from msattn.analysis.attention_figure import plot_fused_attention
from msattn.analysis.attention_page import fused_attention_html
from msattn.analysis.fused_attention import FusedAttention
from msattn.data.relation_rows import TAG, relation_row
from msattn.errors import UserError
from msattn.training.cli import parse_arguments, run_cli


@dataclass
class PictureArguments:
    """Arguments of the picture."""

    model: str = field(metadata={"help": "A multi-scale model: its folder, or its name on the Hub."})
    text: str = field(
        metadata={"help": "The sentence; for relation extraction with <e1>..</e1> and <e2>..</e2> in it."}
    )
    output: str = field(metadata={"help": "The file to write: .png, .svg, or .html to point at tokens in."})
    query: list[str] | None = field(
        default=None,
        metadata={
            "help": "Tokens whose attention to draw, words or positions [entity starts, else all]. Not for .html."
        },
    )
    top: int | None = field(default=None, metadata={"help": "Lines of each token. Not for .html."})


def main(argv: Sequence[str] | None = None) -> None:
    (args,) = parse_arguments([PictureArguments], argv)
    suffix = Path(args.output).suffix.lower()
    if suffix not in (".png", ".svg", ".html"):
        raise UserError(f"--output {args.output}: the file must end in .png, .svg or .html.")
    if suffix == ".html" and (args.query or args.top):
        raise UserError("--query and --top are for .png and .svg: in a page, every token can be pointed at.")
    if not Path(args.output).absolute().parent.is_dir():
        raise UserError(f"--output {args.output}: there is no such folder to write to.")

    try:
        config = AutoConfig.from_pretrained(args.model)
    except (OSError, ValueError):
        raise UserError(f"--model {args.model}: it is neither a model's folder nor its name on the Hub.") from None
    architecture = (config.architectures or [config.model_type])[0]
    if config.model_type != msattn.MultiScaleBertConfig.model_type or not hasattr(msattn, architecture):
        raise UserError(f"--model {args.model}: the model is a {architecture}, which has no fused attention.")
    model = getattr(msattn, architecture).from_pretrained(args.model)
    tokenizer = AutoTokenizer.from_pretrained(args.model)
    row = relation_row({"text": args.text}, "--text") if TAG.search(args.text) else {"text": args.text}
    attention = FusedAttention.from_model(model, tokenizer, row["text"], row.get("head"), row.get("tail"))
    if suffix == ".html":
        fused_attention_html(attention, args.output)
    else:
        query = [int(part) if part.isdecimal() else part for part in args.query] if args.query else None
        plot_fused_attention(attention, query, args.output, args.top)


if __name__ == "__main__":
    run_cli(main)
