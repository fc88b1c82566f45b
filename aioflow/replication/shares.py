"""Gradients of one variable, kept apart by replica until it is decided which of them make the step."""

import threading
from collections.abc import Callable, Sequence
from typing import Any, Final, Generic, NamedTuple, TypeVar

import numpy as np

from aioflow import errors
from aioflow.replication.quorum import REPEATED, Ticket
from aioflow.tensors.as_array import AnyArray
from aioflow.tensors.dtypes import Spec, TensorShape

G = TypeVar("G")


class Rows(NamedTuple):
    """A gradient of which only some rows are held: `values[i]` belongs to row `indices[i]`; rows may repeat."""

    indices: AnyArray
    values: AnyArray


class Shares(Generic[G]):
    """What replicas have stored of the gradient of one variable. From any thread.

    Args:
        name: how errors call it.
        spec: dtype and shape of the gradient.
        signature: how it was opened, for those who open it again.
    """

    def __init__(self, name: str, spec: Spec, signature: Any = None) -> None:
        self.name: Final = name
        self.spec: Final = spec
        self.signature: Final = signature
        self._stored: dict[int, tuple[Ticket, G]] = {}
        self._taken: int | None = None
        self._lock: Final = threading.Lock()

    def put(self, ticket: Ticket, make: Callable[[], G]) -> None:
        """Keep the gradient until its step is taken, in place of another that the replica stored before.

        One that no step can want any more is not even made. InvalidArgumentError if it cannot be one of the variable:
        the step would fail for all replicas.
        """
        if not self._wants(ticket):
            return
        gradient = make()
        self._check(gradient)
        with self._lock:
            if self._wants(ticket):
                self._stored[ticket.replica] = ticket, gradient

    def _wants(self, ticket: Ticket) -> bool:
        present = self._stored.get(ticket.replica)
        newer = present is None or present[0].serial < ticket.serial
        return ticket.serial != REPEATED and newer and (self._taken is None or ticket.step > self._taken)

    def _check(self, gradient: G) -> None:
        """InvalidArgumentError if the gradient does not fit the variable."""
        raise NotImplementedError

    def take(self, step: int, tickets: Sequence[tuple[int, int]]) -> list[G]:
        """The gradients of these replicas and serial numbers, in that order; all of the step and before are forgotten.

        AbortedError if one is not there, or the step was taken before; then nothing is forgotten.
        """
        with self._lock:
            if self._taken is not None and step <= self._taken:
                raise errors.AbortedError(f"the gradients of {self.name!r} of step {step} were taken before")
            found = [self._found(replica, serial) for replica, serial in tickets]
            if any(gradient is None for gradient in found):
                missing = [place[0] for place, each in zip(tickets, found, strict=True) if each is None]
                raise errors.AbortedError(
                    f"the gradients of {self.name!r} of step {step} of replicas {missing} are not there: the task that "
                    "kept them has restarted"
                )
            self._taken = step
            self._stored = {key: kept for key, kept in self._stored.items() if kept[0].step > step}
        return [gradient for gradient in found if gradient is not None]

    def _found(self, replica: int, serial: int) -> G | None:
        ticket, gradient = self._stored.get(replica, (None, None))
        return gradient if ticket is not None and ticket.serial == serial else None

    def reset(self) -> None:
        """Nothing is stored, and no step was taken."""
        with self._lock:
            self._stored, self._taken = {}, None

    def release(self) -> None:
        """Its container was reset or its session closed."""
        self.reset()

    @property
    def stored(self) -> list[Ticket]:
        """What is stored."""
        with self._lock:
            return [ticket for ticket, _ in self._stored.values()]

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r} of {self.spec}, {len(self._stored)} stored>"


class DenseShares(Shares[AnyArray]):
    """Gradients that are arrays."""

    def _check(self, gradient: AnyArray) -> None:
        if not self.spec.shape.is_compatible_with(gradient.shape):
            raise errors.InvalidArgumentError(
                f"a gradient of {self.name!r} must have shape {self.spec.shape}, not {TensorShape(gradient.shape)}"
            )

    def mean(self, gradients: Sequence[AnyArray]) -> AnyArray:
        """Their sum, added in their order, divided by how many they are; narrow floats are added as float32."""
        narrow = self.spec.dtype.is_floating and self.spec.dtype.size < 4
        first, *others = gradients
        total = np.array(first, np.float32 if narrow else None)
        for gradient in others:
            np.add(total, gradient, out=total)
        np.divide(total, total.dtype.type(len(gradients)), out=total)
        return total.astype(self.spec.dtype.np, copy=False)


class RowShares(Shares[Rows]):
    """Gradients of which only some rows are held."""

    def _check(self, gradient: Rows) -> None:
        indices, values = gradient
        whole = self.spec.shape
        rows = TensorShape([len(indices)]).concatenate(whole[1:])
        if not rows.is_compatible_with(values.shape):
            raise errors.InvalidArgumentError(
                f"{len(indices)} rows of a gradient of {self.name!r} must have shape {rows}, not "
                f"{TensorShape(values.shape)}"
            )
        count = whole.sizes[0] if whole.sizes else None
        strays = indices[(indices < 0) | (indices > (np.iinfo(np.int64).max if count is None else count - 1))]
        if strays.size:
            raise errors.InvalidArgumentError(
                f"index {strays[0]} is out of range for a gradient of {self.name!r}, of shape {self.spec.shape}"
            )

    def mean(self, gradients: Sequence[Rows]) -> Rows:
        """The sum of each row that one of them has, added in their order, divided by how many gradients there are."""
        narrow = self.spec.dtype.is_floating and self.spec.dtype.size < 4
        indices = np.concatenate([gradient.indices for gradient in gradients])
        values = np.concatenate([gradient.values for gradient in gradients])
        found, places = np.unique(indices, return_inverse=True)
        total = np.zeros((len(found), *values.shape[1:]), np.float32 if narrow else values.dtype)
        np.add.at(total, places.reshape(-1), values)
        np.divide(total, total.dtype.type(len(gradients)), out=total)
        return Rows(found, total.astype(self.spec.dtype.np, copy=False))
