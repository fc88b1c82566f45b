"""A batch of rows that several steps give: whose rows are in it, and what its steps give each other."""

import itertools
import weakref
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Final

from aioflow import errors
from aioflow.tensors.dtypes import Array
from aioflow.waiting.lines import Attempt, serve_none

Values = Sequence[Array]
"""An array for each tensor."""
_ids: Final = itertools.count(1)


class Rows:
    """The rows of one step in a batch.

    Attributes:
        id: their number, unique in the process.
        values: an array for each tensor; empty when the leader of the batch has them.
        count: how many rows they are.
        batch: the batch.
        attempt: waits until the batch begins, or until a held batch has results.
    """

    __slots__ = ("__weakref__", "attempt", "batch", "count", "id", "values")

    def __init__(self, values: Values, count: int, batch: "Batch", who: Any) -> None:
        self.id: Final = next(_ids)
        self.values = values
        self.count: Final = count
        self.batch = batch
        self.attempt: Final = Attempt("find a batch in", serve_none, who)

    @property
    def leads(self) -> bool:
        """Whether their step computes the batch."""
        return self.batch.leader == self.id


class Batch:
    """Rows that are computed together.

    Attributes:
        key: equal for rows that can share a batch.
        parts: the rows of each step, the leader's first; empty when none of them waits for the batch.
        rows: how many rows they are.
        is_ready: whether it begins as soon as it may.
        places: the first row and the row after the last of each part, by its number. Empty before it begins.
        leader: the number of the part whose step computes it; 0 before it begins.
        results: the rows of results that the leader gives, by operation and by the number of the part.
        shares: the values that its steps give their leader, by operation and by the number of the part.
        lost: the numbers of the parts whose steps have ended.
        waits: the steps that wait for results or for shares, and the condition of each.
    """

    __slots__ = (
        "__weakref__", "_ends", "is_ready", "key", "leader", "lost", "parts", "places", "results", "rows", "shares",
        "waits",
    )  # fmt: skip

    def __init__(self, key: Hashable) -> None:
        self.key: Final = key
        self.parts: list[Rows] = []
        self.rows: int = 0
        self.is_ready: bool = False
        self.places: dict[int, tuple[int, int]] = {}
        self.leader: int = 0
        self.results: Final[dict[str, dict[int, Values]]] = {}
        self.shares: Final[dict[str, dict[int, Values]]] = {}
        self.lost: Final[set[int]] = set()
        self.waits: Final[dict[Attempt, Callable[[], bool]]] = {}
        self._ends: list[weakref.ref[Rows]] = []

    def add(self, rows: Rows) -> None:
        """Take rows."""
        self.parts.append(rows)
        self.rows += rows.count
        rows.batch = self

    def remove(self, rows: Rows) -> None:
        """Give rows back before the batch begins."""
        self.parts.remove(rows)
        self.rows -= rows.count

    def begin(self, ended: "Callable[[weakref.ref[Batch], int], object]") -> None:
        """Give each part its place. `ended` is called when the step of a part, which alone keeps it, has ended."""
        ends = itertools.accumulate([part.count for part in self.parts], initial=0)
        self.places = {part.id: pair for part, pair in zip(self.parts, itertools.pairwise(ends), strict=True)}
        self.leader = self.parts[0].id
        self._ends = [weakref.ref(part, _calling(ended, weakref.ref(self), part.id)) for part in self.parts]

    def divided(self, values: Values) -> dict[int, Values]:
        """Copies of the rows of each part. InvalidArgumentError if there are too few."""
        for value in values:
            if not value.ndim or len(value) < self.rows:
                text = f"a value of shape {list(value.shape)} cannot be divided: its batch has {self.rows} rows"
                raise errors.InvalidArgumentError(f"{text}, and each needs its row in axis 0")
        return {each: [value[start:stop].copy() for value in values] for each, (start, stop) in self.places.items()}


def _calling(
    ended: Callable[[weakref.ref[Batch], int], object], batch: weakref.ref[Batch], number: int
) -> Callable[[object], object]:
    return lambda _: ended(batch, number)
