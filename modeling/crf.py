"""
Conditional random field: tags of a sentence are scored together, each by itself and beside the one before it.

The layer and its likelihood are those of the package pytorch-crf. Every real token of a sentence has a tag there, also
those that nobody labelled, such as [CLS] and the later pieces of a word: what their tags may be is summed over. So the
model needs to know nothing else of the tokenizer, and reads a sentence without labels as it did in training.

A compiled model leaves the layer out: a loop over the tokens would be compiled anew for every length.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

# How far an impossible tag is behind the worst one. Finite, for the difference of two infinities has no gradient.
IMPOSSIBLE = 1e4


def crf_layer(num_labels: int) -> nn.Module:
    """
    The scores of `num_labels` tags beside each other, at the start and at the end of a sentence.

    Raises:
        ImportError: pytorch-crf is not installed.
    """
    try:
        from torchcrf import CRF
    except ImportError:
        raise ImportError("crf=True needs a package: pip install pytorch-crf") from None
    return CRF(num_labels, batch_first=True)


@torch.compiler.disable
def crf_loss(crf: Any, logits: torch.Tensor, labels: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
    """
    -log p(labels | sentence): p is Σ exp(score) over the sequences of tags that agree with the labels, divided by that
    over all sequences.

    Args:
        crf (`torch.nn.Module`): Made by [`crf_layer`].
        logits (`torch.Tensor` of shape `(batch, tokens, num_labels)`): Scores of the tags by themselves.
        labels (`torch.LongTensor` of shape `(batch, tokens)`): Tags; -100 where there is none.
        attention_mask (`torch.Tensor` of shape `(batch, tokens)`): Non-zero for real tokens.

    Returns:
        `torch.Tensor` of shape `(batch,)`.
    """
    order, real = _real_tokens_first(attention_mask)
    logits, labels = _take(logits.float(), order), labels.gather(1, order)
    tags = labels.clamp_min(0)
    others = torch.ones_like(logits, dtype=torch.bool).scatter(-1, tags.unsqueeze(-1), False)
    impossible = logits.detach().amin(-1, keepdim=True) - IMPOSSIBLE
    agreeing = impossible.where(others & (labels >= 0).unsqueeze(-1), logits)
    # log (exp(score of `tags`) / Σ exp(score)) over all sequences, and over those that agree: the score falls out.
    every, right = (crf(scores, tags, real, reduction="none") for scores in (logits, agreeing))
    return right - every


@torch.compiler.disable
def best_sequence_scores(crf: Any, logits: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
    """
    For every token and tag, how far the best sequence that has this tag there is behind the best of all. The tags with
    0, the largest score, are the sequence that Viterbi's algorithm finds. Zero at padding.

    Shapes are those of [`crf_loss`]; the result has the shape of `logits`.
    """
    order, real = _real_tokens_first(attention_mask)
    scores = _take(logits.float(), order).unbind(1)
    ahead = [crf.start_transitions + scores[0]]
    for score in scores[1:]:
        ahead.append((ahead[-1].unsqueeze(2) + crf.transitions).amax(1) + score)
    end = crf.end_transitions.expand_as(scores[0])
    behind = [end]
    for score, inside in zip(scores[:0:-1], real.unbind(1)[:0:-1], strict=True):
        further = (crf.transitions + (score + behind[-1]).unsqueeze(1)).amax(2)
        behind.append(further.where(inside.unsqueeze(1), end))
    best = torch.stack(ahead, dim=1) + torch.stack(behind[::-1], dim=1)
    # Near 0, half precision can tell sequences apart; not so the scores of whole sentences.
    best = (best - best.amax(-1, keepdim=True)).masked_fill(~real.unsqueeze(-1), 0)
    return _take(best, order.argsort(dim=1)).to(logits.dtype)


def _real_tokens_first(attention_mask: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """An order of the tokens with padding at the end, and the mask in it, where no sentence is empty."""
    real = attention_mask.bool()
    order = (~real).long().argsort(dim=-1, stable=True)
    real = real.gather(1, order)
    return order, real | (torch.arange(real.shape[1], device=real.device) == 0)


def _take(states: torch.Tensor, order: torch.Tensor) -> torch.Tensor:
    return states.gather(1, order.unsqueeze(-1).expand_as(states))
