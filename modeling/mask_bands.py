"""Recognises the windows in the mask functions of Transformers, and hands them to attention layers."""

from __future__ import annotations

from collections.abc import Callable
from operator import index
from typing import Any, NamedTuple

import torch

#: Further than any two tokens are apart.
UNBOUNDED = 2**31


class Band(NamedTuple):
    """
    The distances, key minus query, at which a key is visible.

    Args:
        first, last (`int`): The least and the greatest distance; -`UNBOUNDED` and `UNBOUNDED` for no limit.
    """

    first: int
    last: int

    @property
    def before(self) -> int:
        """The number of tokens that a query sees before it."""
        return -self.first

    @property
    def after(self) -> int:
        """The number of tokens that a query sees after it."""
        return self.last

    def within(self, tokens: int) -> Band:
        """The same in a text of so many tokens."""
        return Band(max(self.first, 1 - tokens), min(self.last, tokens - 1))

    def holds(self, distances: torch.Tensor) -> torch.Tensor:
        """True for visible distances, key minus query."""
        return (distances >= self.first) & (distances <= self.last)

    # What mask functions do with their parts.
    @property
    def device(self) -> None:
        return None

    def to(self, *args: Any, **kwargs: Any) -> Band:
        return self

    def __bool__(self) -> bool:
        raise TypeError("a mask asks for more than distances")

    def __and__(self, other: Band) -> Band:
        return Band(max(self.first, other.first), min(self.last, other.last))

    def __or__(self, other: Band) -> Band:
        low, high = (self, other) if self.first <= other.first else (other, self)
        if low.last < low.first:
            return high
        if high.last < high.first:
            return low
        if high.first > low.last + 1:
            raise TypeError("two bands")
        return Band(low.first, max(low.last, high.last))


EVERYTHING, NOTHING = Band(-UNBOUNDED, UNBOUNDED), Band(UNBOUNDED, -UNBOUNDED)


class _Place:
    """`rows` times the position of the query, plus `columns` times that of the key, plus a number."""

    device = None

    def __init__(self, rows: int, columns: int, number: int = 0):
        self.rows, self.columns, self.number = rows, columns, number

    def __sub__(self, other: Any) -> _Place:
        other = other if isinstance(other, _Place) else _Place(0, 0, index(other))
        return _Place(self.rows - other.rows, self.columns - other.columns, self.number - other.number)

    def __neg__(self) -> _Place:
        return _Place(-self.rows, -self.columns, -self.number)

    def __add__(self, other: Any) -> _Place:
        return self - (-other)

    def __le__(self, other: Any) -> Band:
        left = self - other
        if left.columns == 1 and left.rows == -1:
            return Band(-UNBOUNDED, -left.number)
        if left.columns == -1 and left.rows == 1:
            return Band(left.number, UNBOUNDED)
        # Positions are not negative: this is how a mask says that all keys are visible.
        if left.rows <= 0 and left.columns <= 0 and left.number <= 0:
            return EVERYTHING
        raise TypeError("places, not distances")

    def __lt__(self, other: Any) -> Band:
        return self + 1 <= other

    def __ge__(self, other: Any) -> Band:
        return -self <= -other

    def __gt__(self, other: Any) -> Band:
        return -self < -other

    def __abs__(self) -> _Distance:
        return _Distance(self)

    def new_ones(self, *args: Any, **kwargs: Any) -> Band:
        return EVERYTHING

    def new_zeros(self, *args: Any, **kwargs: Any) -> Band:
        return NOTHING


class _Distance:
    """The absolute value of a place."""

    def __init__(self, place: _Place):
        self.place = place

    def __le__(self, other: Any) -> Band:
        return (self.place <= other) & (-self.place <= other)

    def __lt__(self, other: Any) -> Band:
        return (self.place < other) & (-self.place < other)


def band_of(mask_function: Callable) -> Band | None:
    """
    The band of a mask function of Transformers, `mask_function(batch, head, query, key)`.

    The function is called with symbols in place of positions. So the answer is the mask itself, not what a
    configuration says of it, and holds for any length.

    Args:
        mask_function (`Callable`): The function.

    Returns:
        `Band`: The visible distances. `None` for a mask that reads anything else, such as blocks or packed texts.
    """
    try:
        band = mask_function(_Place(2, 0), _Place(2, 0), _Place(1, 0), _Place(0, 1))
    except (TypeError, AttributeError, IndexError, ValueError, RuntimeError):
        return None
    return band if isinstance(band, Band) else None


def encode_band(band: Band, real: torch.Tensor) -> torch.Tensor:
    """
    A band and its padding, as a mask that goes through a model to its attention layers.

    The sizes of the mask are the band: it is a view that takes no memory. It has five dimensions, so that no layer
    takes it for an ordinary mask, and it survives compilation, export and gradient checkpointing.

    Args:
        band (`Band`): The visible distances, bounded and around 0.
        real (`torch.BoolTensor` of shape `(batch, tokens)`): True at real tokens.

    Returns:
        `torch.BoolTensor` of shape `(batch, 1, before + 1, after + 1, tokens)`
    """
    return real[:, None, None, None].expand(-1, 1, band.before + 1, band.after + 1, -1)


def decode_band(mask: torch.Tensor | None) -> tuple[Band, torch.Tensor] | None:
    """The band and the real tokens `(batch, tokens)` of [`encode_band`], or `None` for another mask."""
    if mask is None or mask.dim() != 5:
        return None
    return Band(1 - mask.shape[2], mask.shape[3] - 1), mask[:, 0, 0, 0]


def visible_keys(band: Band, queries: int, keys: int, device: torch.device | str) -> torch.Tensor:
    """True where a query sees a key, `(queries, keys)`; the queries are the last of the keys."""
    return band.holds(torch.arange(keys, device=device) - torch.arange(keys - queries, keys, device=device)[:, None])
