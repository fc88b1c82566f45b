"""The names that objects get from their classes."""

import functools
import re
from collections.abc import Container


@functools.cache
def snake_case(name: str) -> str:
    """`Conv2DTranspose` becomes `conv2d_transpose`, and `KLDivergence` `kl_divergence`."""
    return re.sub("([a-z])([A-Z])", r"\1_\2", re.sub("(.)([A-Z][a-z]+)", r"\1_\2", name)).lower()


def known_name(given: str, names: Container[str]) -> str | None:
    """The given name, its lower case (`MAE`) or its snake case (`MeanAbsoluteError`), if among `names`; else None."""
    return next((name for name in (given, given.lower(), snake_case(given)) if name in names), None)
