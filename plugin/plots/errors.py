"""A browser of the errors of a relation model: an interactive HTML page."""

from __future__ import annotations

import os
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from msattn.data.files.records import json_lines
from msattn.data.relation_rows import relation_row
from msattn.errors import TooFarApart, UserError
from msattn.plots.examples_page import attention_fields, write_examples
from msattn.plots.fused_attention import FusedAttention
from msattn.plots.style import check_suffix


def error_browser(
    predictions: str | os.PathLike,
    path: str | os.PathLike,
    model: PreTrainedModel | None = None,
    tokenizer: PreTrainedTokenizerBase | None = None,
) -> int:
    """
    Writes an interactive HTML page of the examples whose predicted label is wrong, most probable first. Pairs that
    the model has not read (`"probability": null`) come last, without attention.

    It steps to the next and the previous error, by buttons or by the arrow keys, and filters by gold and predicted
    label. `#error=3` in the address shows the third one. The page is self-contained.

    Args:
        predictions (`str` or `os.PathLike`): The `test_predictions.jsonl` of `run_re.py`, with gold labels.
        path (`str` or `os.PathLike`): The `.html` file to write.
        model (`PreTrainedModel`, *optional*):
            The multi-scale model that has predicted: the page then shows its attention, rounded to four decimals. It
            reads every error once more.
        tokenizer (`PreTrainedTokenizerBase`, *optional*): The tokenizer of the model.

    Returns:
        `int`: The number of errors.

    Raises:
        UserError: The file cannot be read, a line lacks a field, or the model has no fusion layer.
    """
    check_suffix(path, ".html")
    rows = [_prediction(row, where) for where, row in json_lines(predictions)]
    errors = [row for row in rows if row["gold"] != row["prediction"]]
    errors.sort(key=lambda row: 1 if row["score"] is None else -row["score"])
    examples = []
    for row in errors:
        example = {key: row[key] for key in ("id", "gold", "prediction", "score")}
        example["text"] = _parts(row["text"], head=row["head"], tail=row["tail"])
        if model is not None and tokenizer is not None and row["score"] is not None:
            types = row["head_type"], row["tail_type"]
            with suppress(TooFarApart):  # such a pair has no relation, and no attention
                attention = FusedAttention.from_model(model, tokenizer, row["text"], row["head"], row["tail"], types)
                example |= attention_fields(attention, 4)
        examples.append(example)
    title = f"{Path(predictions).name}: {len(errors)} of {len(rows)} are wrong"
    write_examples(path, title, "It lets you browse the errors of a model.", examples)
    return len(errors)


def _prediction(row: Any, where: str) -> dict[str, Any]:
    read = relation_row(row, where)
    gold, prediction, score = (row.get(name) for name in ("gold", "prediction", "probability"))
    if isinstance(gold, list) and isinstance(prediction, list):  # several relations a pair
        gold, prediction = (", ".join(sorted(labels)) for labels in (gold, prediction))
        score = None if score is None else max(score, default=0.0)
    scored = isinstance(score, int | float | None) and "probability" in row
    if not (isinstance(gold, str) and isinstance(prediction, str) and scored):
        raise UserError(
            f'{where}: there must be the labels "gold" and "prediction" and the number "probability", as in '
            "test_predictions.jsonl of run_re.py."
        )
    return {**read, "gold": gold, "prediction": prediction, "score": score}


def _parts(text: str, **spans: list[int]) -> list[tuple[str, str]]:
    """The text in parts, each with the roles of the entities that it belongs to: `""`, `"head"` or `"head tail"`."""
    bounds = sorted({0, len(text), *(bound for span in spans.values() for bound in span)})
    return [
        (text[first:last], " ".join(role for role, (start, end) in spans.items() if start <= first < end))
        for first, last in pairwise(bounds)
    ]
