"""Errors that name their place in the data."""

import contextlib
from collections.abc import Iterator
from typing import NoReturn

from aioflow.graph.building import with_text


@contextlib.contextmanager
def located(place: str) -> Iterator[None]:
    """The text of a TypeError or ValueError of the block begins with the place, such as "epoch 1: batch 2".

    Subclasses of these, which belong to the user, stay as they are; and so do all with an empty place.
    """
    try:
        yield
    except (TypeError, ValueError) as error:
        reraise(error, place)


def reraise(error: TypeError | ValueError, place: str) -> NoReturn:
    """Raise the error as `located` does, where a context manager takes too long."""
    try:
        if not place or type(error) not in (TypeError, ValueError):
            raise error
        raise with_text(error, f"{place}: {error}") from error
    finally:
        del error  # its traceback refers to this frame
