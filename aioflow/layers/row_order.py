"""The random orders in which calls of `fit` take the rows of arrays."""

import itertools
import weakref
from collections.abc import Iterator
from typing import Final

import numpy as np

from aioflow.session import Session

_WORD: Final = (1 << 64) - 1
_calls: Final[weakref.WeakKeyDictionary[Session, Iterator[int]]] = weakref.WeakKeyDictionary()
"""The numbers of the next calls in each session."""


def row_order(session: Session) -> np.random.Generator:
    """The random numbers that order the rows for one call of `fit` in this session.

    With a seed of the graph they depend on the seed, and on the number of calls before in the session: as those of
    random operations, they are the same in each session.
    """
    number, seed = next(_calls.setdefault(session, itertools.count())), session.graph.seed
    return np.random.default_rng(None if seed is None else [int(seed) & _WORD, number])
