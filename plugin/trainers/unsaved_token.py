"""A Hub token that does not end up in a checkpoint."""

from __future__ import annotations


class UnsavedToken(str):
    """A token that is left out where a Trainer saves its arguments, which are pushed with the model."""

    def __reduce__(self) -> tuple[type[None], tuple[()]]:
        return type(None), ()
