"""The command `msattn app`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from transformers.utils import logging

from msattn.app.page import launch
from msattn.app.space import write_space
from msattn.command_line import named, parse_arguments
from msattn.errors import UserError


@dataclass
class AppArguments:
    """Arguments of `msattn app`."""

    model: list[str] = field(
        metadata={
            "help": "Checkpoints: folders, or names on the Hub; one for each task, such as a tagger and a parser."
        }
    )
    port: int | None = field(default=None, metadata={"help": "Port. Default: the first free one from 7860 on."})
    host: str | None = field(
        default=None, metadata={"help": "Address to listen at; 0.0.0.0 for all. Default: this machine only."}
    )
    share: bool = field(
        default=False, metadata={"help": "Ask Gradio's server for a public address, which tunnels to this machine."}
    )
    lang: str | None = field(
        default=None, metadata={"help": "Parser and tagger: language of the rules for words, such as en."}
    )
    space: str | None = field(
        default=None, metadata={"help": "Write a folder for a Space on the Hub, instead of starting the page."}
    )


def main(argv: Sequence[str]) -> None:
    """
    Serves the page, or writes a Space.

    Args:
        argv (`Sequence[str]`): `MODEL [MODEL ...]`, and options.

    Raises:
        UserError: An argument is wrong, or has no use for a Space, or a checkpoint cannot be loaded.
    """
    (args,) = parse_arguments([AppArguments], named(argv, "model"), "msattn app")
    if args.space is not None:
        if serving := [name for name in ("port", "host", "share") if getattr(args, name)]:
            raise UserError(f"--{serving[0]}: the Hub serves a Space; leave out --{serving[0]} or --space.")
        write_space(args.space, args.model, args.lang)
        print(f"{args.space}: a Space of {', '.join(args.model)}")
        return
    logging.disable_progress_bar()
    launch(args.model, args.lang, server_port=args.port, server_name=args.host, share=args.share)
