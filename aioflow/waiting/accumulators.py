"""Conditional accumulators: they add gradients until enough are there to be taken.

An apply never waits. It drops a stale gradient, whose step is before the accumulator's. A take waits for a number of
gradients, takes the mean or the sum of all of them, and begins the next step. Gradients with an order, for example the
index of their task, are added in that order, whatever the order of arrival, so that the sum is equal to the last bit in
every run. For that, the sums of each order are kept apart until they are taken.
"""

import functools
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import numpy as np

from aioflow import errors
from aioflow.tensors.as_array import AnyArray
from aioflow.tensors.dtypes import Spec
from aioflow.tensors.shape import TensorShape
from aioflow.waiting.lines import Attempt, Outcome, Waitable, WaiterLine, wake

UNORDERED: Final = -1
"""The order of gradients that are added as they arrive, before all others."""


class Taken(NamedTuple):
    """The result of a take: sums by order, and the number of gradients in them."""

    sums: Mapping[int, Any]
    number: int

    @property
    def nbytes(self) -> int:
        """How many bytes they are."""
        parts = self.sums.values()
        return sum([part.values.nbytes if isinstance(part, Rows) else part.nbytes for part in parts])


class Rows(NamedTuple):
    """Rows of a gradient: `values[i]` is added to row `indices[i]`; indices ascend.

    `times` is for each row the number of gradients with that row, `rows` the number of rows of the whole, if known.
    """

    indices: AnyArray
    values: AnyArray
    times: AnyArray
    rows: int | None


class Accumulator(Waitable):
    """Gradients of one dtype and shape, added up. From any loop or thread of the process.

    Args:
        name: its name in errors.
        spec: the dtype of the gradients, and the shape that all of them match.
        mean: whether a take gives the mean, else the sum.
        signature: its definition, which a second opening must repeat.
    """

    def __init__(self, name: str, spec: Spec, mean: bool = True, signature: Any = None) -> None:
        super().__init__(name)
        self.signature: Final = signature
        self.spec: Final = spec
        self._mean: Final = mean
        self._wide: Final = np.dtype(np.float32) if spec.dtype.is_floating and spec.dtype.size < 4 else spec.dtype.np
        self._takes = WaiterLine()
        self._lines = (self._takes,)
        self._sums: dict[int, Any] = {}
        self._count = 0
        self._step = 0

    # Gradients, defined by subclasses

    def _fit(self, present: Any, gradient: Any) -> None:
        """InvalidArgumentError if a gradient cannot be added to one that is there."""
        raise NotImplementedError

    def _add(self, present: Any, gradient: Any) -> Any:
        """Return the sum in new memory."""
        raise NotImplementedError

    def _divided(self, total: Any, count: int) -> Any:
        raise NotImplementedError

    def _narrowed(self, total: Any) -> Any:
        raise NotImplementedError

    # Adding

    def _apply(self, gradient: Any, local_step: int, order: int) -> bool:
        """Add the gradient unless it is stale: whether it was added.

        The sum is made without the lock, and again if another gradient of that order came meanwhile.
        """
        present, total = None, gradient
        while True:
            with self._lock:
                if self._gone is not None:
                    raise self._gone()
                if local_step < self._step:
                    return False
                if self._sums:
                    self._fit(next(iter(self._sums.values())), gradient)
                found = self._sums.get(order)
                if found is present:
                    self._sums[order] = total
                    self._count += 1
                    served = self._serve()
                    break
            present, total = found, gradient if found is None else self._add(found, gradient)
        wake(served)
        return True

    def _refused(self, what: str) -> errors.InvalidArgumentError:
        return errors.InvalidArgumentError(f"accumulator {self.name!r} of {self.spec} cannot take {what}")

    # Taking

    async def take(self, required: int, who: Any = None) -> Any:
        """The mean, or the sum, of all gradients that came, once `required` did. The next step begins."""
        return self.total(await self.take_parts(required, who))

    async def take_parts(self, required: int, who: Any = None) -> Taken:
        """All gradients that came, once `required` did; `total` makes one of them. The next step begins.

        Cancelling the wait takes nothing. InvalidArgumentError unless `required` is positive.
        """
        if required <= 0:
            raise errors.InvalidArgumentError(
                f"{required} gradients asked of accumulator {self.name!r}; at least 1 must be required"
            )
        what = f"take {required} gradients of"
        serve = functools.partial(self._take, required)
        taken: Taken = await self.attempt(self._takes, Attempt(what, serve, who))
        return taken

    def _take(self, required: int) -> Outcome | None:
        if self._count < required:
            return None
        taken = Taken(self._sums, self._count)
        self._sums, self._count = {}, 0
        self._step += 1
        return taken, None

    def total(self, taken: Taken) -> Any:
        """Return the mean or the sum of taken gradients, added in their order."""
        total = functools.reduce(self._add, [part for _, part in sorted(taken.sums.items(), key=lambda item: item[0])])
        return self._narrowed(self._divided(total, taken.number) if self._mean else total)

    def give_back(self, taken: Taken) -> None:
        """Undo a take: put its gradients back before later ones, and go back to the step before."""
        with self._lock:
            self._restore(taken)
            served = self._serve()
        wake(served)

    def _restore(self, taken: Taken) -> None:
        since, self._sums = self._sums, dict(taken.sums)
        for order, total in since.items():
            self._sums[order] = self._add(self._sums[order], total) if order in self._sums else total
        self._count += taken.number
        self._step -= 1

    def _give_back(self, attempt: Attempt) -> None:
        if attempt.outcome is not None:
            self._restore(attempt.outcome[0])

    # State

    @property
    def global_step(self) -> int:
        """The step it is in: gradients of earlier ones are stale."""
        return self._step

    def set_global_step(self, step: int) -> None:
        """Go to that step. Added gradients stay."""
        with self._lock:
            self._step = step

    @property
    def num_accumulated(self) -> int:
        """How many gradients were added since the last were taken."""
        return self._count

    def _dropped_error(self) -> BaseException:
        return errors.CancelledError(
            f"accumulator {self.name!r} is gone: its container was reset or its session closed"
        )

    def __repr__(self) -> str:
        state = f"step {self._step}, {self._count} gradients, {len(self._takes)} taking"
        return f"<{type(self).__name__} {self.name!r} {state}>"


class DenseAccumulator(Accumulator):
    """Gradients that are arrays."""

    def apply(self, gradient: AnyArray, local_step: int = 0, order: int = UNORDERED) -> bool:
        """Add a copy of the gradient, unless it is of a step before the accumulator's: whether it was added.

        InvalidArgumentError if its dtype or shape is not the accumulator's, or not that of those which came before it.
        """
        value = np.asarray(gradient)
        if value.dtype != self.spec.dtype.np or not self.spec.shape.is_compatible_with(value.shape):
            raise self._refused(f"a gradient of {value.dtype}{list(value.shape)}")
        return self._apply(value.astype(self._wide), local_step, order)

    def _fit(self, present: AnyArray, gradient: AnyArray) -> None:
        if present.shape != gradient.shape:
            raise self._refused(f"a gradient of shape {list(gradient.shape)} after one of {list(present.shape)}")

    def _add(self, present: AnyArray, gradient: AnyArray) -> Any:
        return np.add(present, gradient)

    def _divided(self, total: AnyArray, count: int) -> Any:
        return np.divide(total, total.dtype.type(count))

    def _narrowed(self, total: AnyArray) -> Any:
        return total.astype(self.spec.dtype.np, copy=False)


class SparseAccumulator(Accumulator):
    """Gradients of which only some rows are held. In the mean each row is divided by how many gradients had it."""

    def apply(
        self,
        indices: AnyArray,
        values: AnyArray,
        shape: AnyArray | None = None,
        local_step: int = 0,
        order: int = UNORDERED,
    ) -> bool:
        """Add the gradient whose row `indices[i]` is `values[i]`, unless it is stale: whether it was added.

        Rows named twice are summed. `shape` is that of the whole, if it is known.

        Raises:
            af.errors.InvalidArgumentError: dtype or shapes do not fit, or an index is out of range.
        """
        indices, values = np.asarray(indices), np.asarray(values)
        count = self._checked(indices, values, shape)
        return self._apply(self._summed(indices, values, count), local_step, order)

    def _checked(self, indices: AnyArray, values: AnyArray, shape: AnyArray | None) -> int | None:
        """Return the number of rows of the whole gradient; None if unknown."""
        if indices.ndim != 1 or values.ndim < 1 or len(indices) != len(values):
            raise self._refused(f"values of shape {list(values.shape)} with indices of {list(indices.shape)}")
        whole = TensorShape([None, *values.shape[1:]])
        if shape is not None:
            given = TensorShape([None if size < 0 else int(size) for size in np.ravel(shape)])
            if not given.is_compatible_with(whole):
                raise self._refused(f"rows of shape {list(values.shape[1:])} for a tensor of shape {given}")
            whole = TensorShape(whole.merge_with(given))
        if values.dtype != self.spec.dtype.np or not self.spec.shape.is_compatible_with(whole):
            raise self._refused(f"rows of a gradient of {values.dtype}{whole}")
        size = TensorShape(self.spec.shape.merge_with(whole)).as_list()[0]
        if indices.size and (indices.min() < 0 or (size is not None and indices.max() >= size)):
            stray = indices[(indices < 0) | (indices >= (np.inf if size is None else size))][0]
            raise self._refused(f"row {stray}" + ("" if size is None else f" of {size}"))
        return size

    def _summed(self, indices: AnyArray, values: AnyArray, count: int | None) -> Rows:
        """The gradient with each row once: those named twice are summed, in their order."""
        found, places = np.unique(indices, return_inverse=True)
        total = np.zeros((len(found), *values.shape[1:]), self._wide)
        np.add.at(total, places.reshape(-1), values)
        return Rows(found.astype(np.int64), total, np.ones(len(found), np.int64), count)

    def _fit(self, present: Rows, gradient: Rows) -> None:
        known = present.rows is not None and gradient.rows is not None
        if present.values.shape[1:] != gradient.values.shape[1:] or (known and present.rows != gradient.rows):
            theirs, ours = [gradient.rows, *gradient.values.shape[1:]], [present.rows, *present.values.shape[1:]]
            raise self._refused(f"rows of a gradient of shape {theirs} after some of {ours}")

    def _add(self, present: Rows, gradient: Rows) -> Any:
        indices = np.union1d(present.indices, gradient.indices)
        values = np.zeros((len(indices), *present.values.shape[1:]), self._wide)
        times = np.zeros(len(indices), np.int64)
        for part in (present, gradient):
            places = np.searchsorted(indices, part.indices)
            values[places] += part.values
            times[places] += part.times
        return Rows(indices, values, times, gradient.rows if present.rows is None else present.rows)

    def _divided(self, total: Rows, count: int) -> Any:
        times = total.times.astype(total.values.dtype).reshape(-1, *[1] * (total.values.ndim - 1))
        return total._replace(values=np.divide(total.values, times))

    def _narrowed(self, total: Rows) -> Any:
        return total._replace(values=total.values.astype(self.spec.dtype.np, copy=False))
