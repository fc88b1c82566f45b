"""The names that objects get from their classes."""

import re


def snake_case(name: str) -> str:
    """`Conv2DTranspose` becomes `conv2d_transpose`, and `KLDivergence` `kl_divergence`."""
    return re.sub("([a-z])([A-Z])", r"\1_\2", re.sub("(.)([A-Z][a-z]+)", r"\1_\2", name)).lower()
