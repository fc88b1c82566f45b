"""Transfers values between devices, for Send and Recv.

The sender calls `start_transfer`, which never waits: it marks the point in the sender's stream after which the value is
complete. The receiver calls `receive`. To a GPU it only enqueues a copy, since later kernels run after the copy; to the
host it waits until the copy has arrived.
"""

from typing import Any, Final, NamedTuple, Protocol

import numpy as np

from aioflow import errors
from aioflow.devices.driver import Event
from aioflow.devices.gpu import Gpu
from aioflow.tensors.dtypes import GPU_DTYPES
from aioflow.tensors.tensor_list import TensorList, is_gap

_HELD: Final = frozenset(dtype.np for dtype in GPU_DTYPES)


class NamedDevice(Protocol):
    """Any device. A device that is no Gpu keeps its values in host memory."""

    @property
    def name(self) -> str:
        """Its name."""


class Transfer(NamedTuple):
    """A value between its sender and its receiver.

    Attributes:
        value: an array in the memory of `source` or of the host, a list of them, or any object of the host.
        source: the GPU that sends it; None if the value is in host memory.
        after: the event in the source's stream after which the value is complete.
        foreign: whether it comes from another process and must be checked.
    """

    value: Any
    source: Gpu | None = None
    after: Event | None = None
    foreign: bool = False


def start_transfer(value: Any, source: NamedDevice) -> Transfer:
    """Return the value as a Transfer, which other devices can receive. Never waits."""
    if not isinstance(source, Gpu) or not _holds_any(value, source):
        return Transfer(value)
    contiguous = _map_items(value, lambda item: source.contiguous(item) if source.holds(item) else item)
    return Transfer(contiguous, source, source.mark())


async def receive(transfer: Transfer, target: NamedDevice, *, host: bool = False) -> Any:
    """Return the value in the memory of `target`, or in host memory if that is the target's or `host` is set.

    Values that are in that memory already are not copied. Cancelling does not disturb a copy that has begun.

    Raises:
        InvalidArgumentError: no GPU can hold the value, for example text.
        ResourceExhaustedError: the target's memory is full.
    """
    value, source, after, _ = transfer
    if isinstance(target, Gpu) and not host:
        return await _bring_to_gpu(value, transfer, target)
    if source is None or after is None:
        return value
    arrived: list[Event] = []

    def fetched(item: Any) -> Any:
        if not source.holds(item):
            return item
        copy, event = source.copy_out(item, after)
        arrived.append(event)
        return copy

    home = _map_items(value, fetched)
    if arrived:  # copies of one stream arrive in order
        await source.wait_until_done(arrived[-1], value, home)
    return home


async def move(value: Any, source: NamedDevice, target: NamedDevice, *, host: bool = False) -> Any:
    """Transfer a value from `source` to `target`; see `receive`."""
    return await receive(start_transfer(value, source), target, host=host)


async def _bring_to_gpu(value: Any, transfer: Transfer, target: Gpu) -> Any:
    """Copy the value, or each element of a list, to the target's memory."""
    if isinstance(value, TensorList):
        items = [item if is_gap(item) else await _bring_to_gpu(item, transfer, target) for item in value.elements()]
        return TensorList.of(items)
    source, after = transfer.source, transfer.after
    if source is not None and after is not None and source.holds(value):
        return value if source is target else target.copy_from_gpu(value, after)
    _check_transferable(value, target.name)
    return await target.copy_in_large(np.asarray(value))


def _check_transferable(item: Any, device: str) -> None:
    """Raise InvalidArgumentError for values that no GPU can hold."""
    dtype = getattr(item, "dtype", None)
    if dtype is None and not isinstance(item, (bool, int, float, complex)):
        raise errors.InvalidArgumentError(f"a {type(item).__name__} cannot be moved to {device}: it is not an array")
    if dtype is not None and dtype not in _HELD:
        what = "text" if dtype.kind in "OSU" else f"dtype {dtype}"
        raise errors.InvalidArgumentError(f"{what} cannot be moved to {device}: a GPU has no such type")


def _map_items(value: Any, change: Any) -> Any:
    """Apply `change` to the value, or to each element of a list and of its inner lists. Gaps stay gaps."""
    if not isinstance(value, TensorList):
        return change(value)
    return TensorList.of([item if is_gap(item) else _map_items(item, change) for item in value.elements()])


def _holds_any(value: Any, gpu: Gpu) -> bool:
    """Whether the value, or an element of the list, is in a GPU's memory."""
    if not isinstance(value, TensorList):
        return gpu.holds(value)
    return any(_holds_any(item, gpu) for item in value.written().values())
