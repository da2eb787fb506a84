"""
What windows cost a classifier: how many heads get one, and its accuracy with them.

Windows keep a share of the attention of each head (`fit_windows`). Weights are not trained again; special tokens stay
visible and see everything.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from importance import accuracy, labelled_texts
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from msattn import set_windows
from msattn.loading import load_trained
from msattn.modeling.window_fitting import head_reach
from msattn.plots.encoders import Text, batches, read_texts
from msattn.plots.style import markdown_table


def window_costs(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    texts: Sequence[Text],
    labels: Sequence[int],
    masses: Sequence[float],
    fitting: Sequence[Text] | None = None,
) -> list[list[str]]:
    """A row without windows, and one a mass: the mass, heads with a window, their share, the widest, the accuracy."""
    measured, special = list(batches(model, tokenizer, texts)), tokenizer.all_special_ids
    rows = [["none", "0", "0 %", "", f"{accuracy(model, measured, labels):.4f}"]]
    fitted = measured if fitting is None else batches(model, tokenizer, fitting)
    reach = head_reach(model, (batch for _, batch in fitted), special)
    for mass in masses:
        windows = reach.windows(mass)
        set_windows(model, windows, special)
        every = [window for row in windows for window in row]
        chosen = [window for window in every if window is not None]
        share = f"{100 * len(chosen) / len(every):.0f} %"
        widest = str(max(chosen, default=""))
        rows.append([f"{mass:g}", str(len(chosen)), share, widest, f"{accuracy(model, measured, labels):.4f}"])
    return rows


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.strip().splitlines()[0])
    parser.add_argument("--model", required=True, help="a trained classifier")
    parser.add_argument("--file", required=True, help="labelled sentences, to measure the accuracy")
    parser.add_argument("--fit_file", help="sentences that windows are fitted to (default: --file)")
    parser.add_argument("--mass", type=float, nargs="+", default=[0.9, 0.95, 0.99], help="attention to keep")
    args = parser.parse_args(argv)
    _, model, tokenizer = load_trained(args.model)
    fitting = read_texts(args.fit_file) if args.fit_file else None
    rows = window_costs(model, tokenizer, *labelled_texts(model, args.file), args.mass, fitting)
    print(markdown_table(["mass", "heads with a window", "share", "widest", "accuracy"], rows))


if __name__ == "__main__":
    main()
