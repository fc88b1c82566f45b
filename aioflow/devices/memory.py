"""Accounts for a device's memory: live bytes, their peak, and the ops that made them."""

import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple, Protocol

import numpy as np

from aioflow import errors
from aioflow.graph.operation import Operation, describe_line
from aioflow.tensors.dtypes import Array, Spec
from aioflow.tensors.tensor_list import TensorList

_FEW: Final = 64
"""The longest list of tensors of which all tensors are charged; of a longer list only the newest is."""
_NAMED: Final = 3
"""The number of largest holders that an error names."""


class Holder(NamedTuple):
    """The live results of one op.

    Attributes:
        op: the operation's name.
        bytes: their size.
        line: the user's line that built it, as `model.py:12 in build`; empty if that is not known.
    """

    op: str
    bytes: int
    line: str


class MemoryUse(NamedTuple):
    """The live results of a device's kernels.

    Attributes:
        live: the bytes alive now.
        peak: the most bytes that were alive at one time.
        limit: the most bytes allowed; None for no limit.
        by_op: the live results by op, the largest first.

    Examples:
        >>> async with af.Session(config=af.Config(track_memory=True)) as other:
        ...     print([type(use).__name__ for use in (await other.memory()).values()])
        ['MemoryUse']
    """

    live: int
    peak: int
    limit: int | None
    by_op: tuple[Holder, ...]


class LedgerNode(Protocol):
    """A node whose results the ledger holds."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def operation(self) -> Operation:
        """The user's operation, whose line errors name."""

    @property
    def output_specs(self) -> Sequence[Spec]:
        """The Specs of its outputs."""


class _Charge(weakref.ref[Any]):
    """A live array and the op that made it."""

    __slots__ = ("bytes", "key", "line", "op")

    bytes: int
    key: int
    line: str
    op: str


ChargeTable = dict[int, _Charge]
"""{id of an array: its charge}."""


class Ledger:
    """The account of one device's memory. Safe to use from any thread.

    Each array is charged once, with all the memory that it keeps alive, to the op whose kernel returned it first. Views
    add no charge. The charge ends when the array is freed. Strings count with their characters.

    The ledger does not count memory that a kernel frees before it returns; memory allocated outside of kernels (feeds,
    their views, and constants until a kernel returns them); scalars; memory that a pool keeps for later use; and all
    tensors of a long list except the newest. A string in several arrays counts in each. An array that several devices
    of a task share counts on the device that made it.
    """

    def __init__(
        self,
        device: str,
        limit: int | None = None,
        arrays: type[Any] = np.ndarray,
        charged: "ChargeTable | None" = None,
    ) -> None:
        """Open an empty account.

        Args:
            device: the device's name, for errors.
            limit: the most bytes that may be alive; None for no limit.
            arrays: the class of the arrays in its memory.
            charged: the charges of all devices that share the memory; None for this one only.
        """
        self.device: Final = device
        self.limit: Final = limit
        self._arrays = arrays
        self._held: ChargeTable = {}
        self._charged = {} if charged is None else charged
        self._live = 0
        self._peak = 0
        self._lock = threading.RLock()
        # An array may be freed on any thread, even inside a block that holds the lock. So its end only appends the
        # charge here, in one atomic step, for the next caller of `_settle`.
        self._ended: deque[_Charge] = deque()

    @property
    def live(self) -> int:
        """Bytes alive now."""
        with self._lock:
            self._settle()
            return self._live

    @property
    def peak(self) -> int:
        """The most bytes that were alive at one time since the last `reset_peak`."""
        return self._peak

    def reset_peak(self) -> None:
        """Set the peak to the bytes alive now."""
        with self._lock:
            self._peak = self.live

    def by_op(self) -> list[Holder]:
        """Return the live results by op, the largest first."""
        sums: dict[tuple[str, str], int] = {}
        with self._lock:
            self._settle()
            for charge in self._held.values():
                sums[charge.op, charge.line] = sums.get((charge.op, charge.line), 0) + charge.bytes
        holders = [Holder(op, held, line) for (op, line), held in sums.items() if held]
        return sorted(holders, key=lambda holder: -holder.bytes)

    def use(self) -> MemoryUse:
        """Return all figures of one moment."""
        with self._lock:
            return MemoryUse(self.live, self.peak, self.limit, tuple(self.by_op()))

    def hold(self, value: Array, op: str, line: str = "", given: Sequence[Array] = ()) -> Array:
        """Charge an array that the op made, and return it. ResourceExhaustedError if it exceeds the device's limit.

        The op is not charged for memory of its inputs, since another kernel was charged for it, or the caller owns it.
        """
        if isinstance(value, self._arrays):
            owner = self._owner(value)
            was_there = any(isinstance(each, self._arrays) and self._owner(each) is owner for each in given)
            self._charge(owner, op, line, 0 if was_there else None)
        elif isinstance(value, TensorList):
            for item in _items(value):
                self.hold(item, op, line, given)
        return value

    def check(self, nbytes: int, what: str) -> None:
        """Raise ResourceExhaustedError, naming `what`, if `nbytes` more bytes exceed the limit."""
        with self._lock:
            self._settle()
            if self.limit is not None and self._live + nbytes > self.limit:
                raise errors.ResourceExhaustedError(
                    f"{what} needs {nbytes:,} bytes on {self.device}, which may hold {self.limit:,} and holds "
                    f"{self._live:,}{_describe_holders(self.by_op())}"
                )

    def _charge(self, owner: Array, op: str, line: str, size: int | None) -> None:
        with self._lock:
            self._settle()
            known = self._charged.get(id(owner))
            if known is not None and known() is owner:
                return
            size = _size(owner) if size is None else size
            if size:
                self.check(size, repr(op))
            charge = _Charge(owner, self._ended.append)
            charge.bytes, charge.key, charge.op, charge.line = size, id(owner), op, line
            self._held[charge.key] = self._charged[charge.key] = charge
            self._live += size
            self._peak = max(self._peak, self._live)

    def _settle(self) -> None:
        """End the charges of arrays that were freed."""
        ended = self._ended
        while ended:
            charge = ended.popleft()
            self._live -= charge.bytes
            if self._held.get(charge.key) is charge:  # otherwise another array has this id by now
                del self._held[charge.key]
            if self._charged.get(charge.key) is charge:
                del self._charged[charge.key]

    def _owner(self, array: Array) -> Array:
        """Return the array that owns the memory of `array`."""
        while isinstance(base := array.base, self._arrays):
            array = base
        return array

    def __repr__(self) -> str:
        limit = "" if self.limit is None else f" of {self.limit:,}"
        return f"<Ledger of {self.device}: {self.live:,} bytes{limit}, at most {self.peak:,}>"


def account_results(
    call: Callable[..., Any], ledger: Ledger, node: LedgerNode, *, asynchronous: bool = False
) -> Callable[..., Any]:
    """Return the function of a kernel, which then charges its results to the node.

    Args:
        call: the kernel, bound to the node.
        ledger: the ledger of the kernel's device.
        node: the node to charge.
        asynchronous: whether the kernel returns an awaitable.
    """
    name, line, single = node.name, describe_line(node.operation), len(node.output_specs) == 1

    def held(result: Any, inputs: Sequence[Array]) -> Any:
        for value in (result,) if single else result or ():
            ledger.hold(value, name, line, inputs)
        return result

    async def waited(*inputs: Array) -> Any:
        return held(await call(*inputs), inputs)

    return waited if asynchronous else lambda *inputs, **out: held(call(*inputs, **out), inputs)


def _items(tensors: TensorList) -> Iterable[Any]:
    return tensors.written().values() if len(tensors) <= _FEW else [tensors.example()]


def _size(array: Array) -> int:
    """Return the bytes of an array, with the characters of strings."""
    size: int = array.nbytes
    return size + sum(map(len, _strings(array))) if array.dtype.kind == "O" else size


def _strings(array: Array) -> Iterable[bytes]:
    return (item for item in array.flat if isinstance(item, bytes))


def _describe_holders(holders: Sequence[Holder]) -> str:
    """Return the part of an error that names the largest holders."""
    if not holders:
        return ""
    names = [
        f"{holder.op!r} ({holder.bytes:,} bytes{', built at ' * bool(holder.line)}{holder.line})"
        for holder in holders[:_NAMED]
    ]
    return f"; the largest are {', '.join(names)}"
