"""
Conditional random field: scores sequences of tags, by single tags and by pairs of neighbouring tags.

The layer and its likelihood come from the package pytorch-crf. Every real token of a sentence has a tag. The loss sums
over all tags of tokens without a label, such as [CLS] and the later pieces of a word. So the model needs nothing else
from the tokenizer, and treats unlabelled sentences as in training.

`torch.compile` skips the layer: its loop over the tokens would be compiled again for every length.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from .real_tokens import real_tokens_first

# How far an impossible tag is below the worst one. Finite, since the difference of two infinities has no gradient.
IMPOSSIBLE = 1e4


def crf_layer(num_labels: int) -> nn.Module:
    """
    The layer with the scores of neighbouring tags, and of tags at the start and at the end of a sentence.

    Args:
        num_labels (`int`): Number of tags.

    Raises:
        ImportError: The package pytorch-crf is not installed.
    """
    try:
        from torchcrf import CRF
    except ImportError:
        raise ImportError("crf=True needs a package: pip install pytorch-crf") from None
    return CRF(num_labels, batch_first=True)


@torch.compiler.disable
def crf_loss(crf: Any, logits: torch.Tensor, labels: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
    """
    -log p(labels | sentence), where p is Σ exp(score) over the tag sequences that agree with the labels, divided by
    that sum over all sequences.

    Args:
        crf (`torch.nn.Module`): A [`crf_layer`].
        logits (`torch.Tensor` of shape `(batch, tokens, num_labels)`): Scores of single tags.
        labels (`torch.LongTensor` of shape `(batch, tokens)`): Tags; -100 where there is none.
        attention_mask (`torch.Tensor` of shape `(batch, tokens)`): Non-zero for real tokens.

    Returns:
        `torch.Tensor` of shape `(batch,)`
    """
    order, real = _real_tokens_first(attention_mask)
    logits, labels = _take(logits.float(), order), labels.gather(1, order)
    tags = labels.clamp_min(0)
    others = torch.ones_like(logits, dtype=torch.bool).scatter(-1, tags.unsqueeze(-1), False)
    impossible = logits.detach().amin(-1, keepdim=True) - IMPOSSIBLE
    agreeing = impossible.where(others & (labels >= 0).unsqueeze(-1), logits)
    # Both are score(tags) - log Σ exp(score), over all sequences or those that agree: the score cancels.
    every, right = (crf(scores, tags, real, reduction="none") for scores in (logits, agreeing))
    return right - every


@torch.compiler.disable
def best_sequence_scores(crf: Any, logits: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
    """
    For every token and tag, the score gap between the best sequence with this tag and the best sequence overall. The
    largest score is 0; the tags that have it are the sequence that the Viterbi algorithm finds.

    Args:
        crf (`torch.nn.Module`): A [`crf_layer`].
        logits (`torch.Tensor` of shape `(batch, tokens, num_labels)`): Scores of single tags.
        attention_mask (`torch.Tensor` of shape `(batch, tokens)`): Non-zero for real tokens.

    Returns:
        `torch.Tensor` of shape `(batch, tokens, num_labels)`: Zero at padding.
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
    # Subtracted before the cast: half precision tells gaps near 0 apart, but not the scores of whole sentences.
    best = (best - best.amax(-1, keepdim=True)).masked_fill(~real.unsqueeze(-1), 0)
    return _take(best, order.argsort(dim=1)).to(logits.dtype)


def _real_tokens_first(attention_mask: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The order of [`real_tokens_first`], and the mask in it, with a real first token as pytorch-crf requires."""
    real = attention_mask.bool()
    order = real_tokens_first(real)
    real = real.gather(1, order)
    return order, real | (torch.arange(real.shape[1], device=real.device) == 0)


def _take(states: torch.Tensor, order: torch.Tensor) -> torch.Tensor:
    return states.gather(1, order.unsqueeze(-1).expand_as(states))
