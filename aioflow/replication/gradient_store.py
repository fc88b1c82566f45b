"""The gradients of one variable, kept apart by replica until a decision says which of them make the step."""

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
    """A gradient of some rows: `values[i]` belongs to row `indices[i]`; rows may repeat."""

    indices: AnyArray
    values: AnyArray


class GradientStore(Generic[G]):
    """The gradients of one variable that replicas have stored. Safe to use from any thread.

    Args:
        name: its name in errors.
        spec: dtype and shape of the gradient.
        signature: the arguments of its creation, compared when it is opened again.
    """

    def __init__(self, name: str, spec: Spec, signature: Any = None) -> None:
        self.name: Final = name
        self.spec: Final = spec
        self.signature: Final = signature
        self._stored: dict[int, tuple[Ticket, G]] = {}
        self._taken: int | None = None
        self._lock: Final = threading.Lock()

    def put(self, ticket: Ticket, make: Callable[[], G]) -> None:
        """Store the gradient until its step is taken. It replaces an earlier one of the same replica.

        Does not call `make` if no step can use the gradient. InvalidArgumentError if the gradient does not fit the
        variable; otherwise the step would fail for all replicas.
        """
        if not self._is_wanted(ticket):
            return
        gradient = make()
        self._check(gradient)
        with self._lock:
            if self._is_wanted(ticket):
                self._stored[ticket.replica] = ticket, gradient

    def _is_wanted(self, ticket: Ticket) -> bool:
        present = self._stored.get(ticket.replica)
        newer = present is None or present[0].serial < ticket.serial
        return ticket.serial != REPEATED and newer and (self._taken is None or ticket.step > self._taken)

    def _check(self, gradient: G) -> None:
        """Raise InvalidArgumentError if the gradient does not fit the variable."""
        raise NotImplementedError

    def take(self, step: int, tickets: Sequence[tuple[int, int]]) -> list[G]:
        """Return the gradients with these replicas and serial numbers, in that order. Deletes those of steps up to it.

        AbortedError, without a change, if one is missing or the step was taken before.
        """
        with self._lock:
            if self._taken is not None and step <= self._taken:
                raise errors.AbortedError(f"the gradients of {self.name!r} of step {step} were taken before")
            found = [self._find(replica, serial) for replica, serial in tickets]
            if any(gradient is None for gradient in found):
                missing = [place[0] for place, each in zip(tickets, found, strict=True) if each is None]
                raise errors.AbortedError(
                    f"the gradients of {self.name!r} of step {step} of replicas {missing} are missing: the task that "
                    "kept them has restarted"
                )
            self._taken = step
            self._stored = {key: kept for key, kept in self._stored.items() if kept[0].step > step}
        return [gradient for gradient in found if gradient is not None]

    def _find(self, replica: int, serial: int) -> G | None:
        ticket, gradient = self._stored.get(replica, (None, None))
        return gradient if ticket is not None and ticket.serial == serial else None

    def reset(self) -> None:
        """Delete all gradients, and forget the last step."""
        with self._lock:
            self._stored, self._taken = {}, None

    def release(self) -> None:
        """Delete all gradients, since the container was reset or the session closed."""
        self.reset()

    @property
    def stored(self) -> list[Ticket]:
        """The tickets of the stored gradients."""
        with self._lock:
            return [ticket for ticket, _ in self._stored.values()]

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r} of {self.spec}, {len(self._stored)} stored>"


class DenseGradientStore(GradientStore[AnyArray]):
    """Dense gradients."""

    def _check(self, gradient: AnyArray) -> None:
        if not self.spec.shape.is_compatible_with(gradient.shape):
            raise errors.InvalidArgumentError(
                f"a gradient of {self.name!r} must have shape {self.spec.shape}, not {TensorShape(gradient.shape)}"
            )

    def mean(self, gradients: Sequence[AnyArray]) -> AnyArray:
        """Return the mean, adding in the given order. Narrow floats are added as float32."""
        narrow = self.spec.dtype.is_floating and self.spec.dtype.size < 4
        first, *others = gradients
        total = np.array(first, np.float32 if narrow else None)
        for gradient in others:
            np.add(total, gradient, out=total)
        np.divide(total, total.dtype.type(len(gradients)), out=total)
        return total.astype(self.spec.dtype.np, copy=False)


class RowGradientStore(GradientStore[Rows]):
    """Gradients of some rows only."""

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
        """Return the sum of each row, added in the given order, divided by the number of gradients."""
        narrow = self.spec.dtype.is_floating and self.spec.dtype.size < 4
        indices = np.concatenate([gradient.indices for gradient in gradients])
        values = np.concatenate([gradient.values for gradient in gradients])
        found, places = np.unique(indices, return_inverse=True)
        total = np.zeros((len(found), *values.shape[1:]), np.float32 if narrow else values.dtype)
        np.add.at(total, places.reshape(-1), values)
        np.divide(total, total.dtype.type(len(gradients)), out=total)
        return Rows(found, total.astype(self.spec.dtype.np, copy=False))
