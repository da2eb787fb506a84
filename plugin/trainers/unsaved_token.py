"""A Hub token that is not saved in checkpoints."""

from __future__ import annotations


class UnsavedToken(str):
    """A token that pickles as `None`, as the Trainer saves its arguments with the model and pushes them."""

    def __reduce__(self) -> tuple[type[None], tuple[()]]:
        return type(None), ()
