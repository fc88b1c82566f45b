"""What a device's memory holds: live bytes, their peak, and which op made them."""

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
"""Of a list of tensors no longer than this, each is looked at; of a longer one only the newest."""
_NAMED: Final = 3
"""So many of the largest holders an error names."""


class Holder(NamedTuple):
    """What one op has made that is still alive.

    Attributes:
        op: its name.
        bytes: how much it is.
        line: the user's line that built it, as `model.py:12 in build`; empty if that is not known.
    """

    op: str
    bytes: int
    line: str


class MemoryUse(NamedTuple):
    """What a device's memory holds of what its kernels have made.

    Attributes:
        live: bytes alive now.
        peak: the most that were ever alive at a time.
        limit: how many may be; None for no limit.
        by_op: what is alive by the op that made it, the largest first.
    """

    live: int
    peak: int
    limit: int | None
    by_op: tuple[Holder, ...]


class LedgerNode(Protocol):
    """A node whose results are held."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def operation(self) -> Operation:
        """The user's operation, for its line."""

    @property
    def output_specs(self) -> Sequence[Spec]:
        """The Specs of its outputs."""


class _Charge(weakref.ref[Any]):
    """An array that is alive, with the op that made it."""

    __slots__ = ("bytes", "key", "line", "op")

    bytes: int
    key: int
    line: str
    op: str


ChargeTable = dict[int, _Charge]
"""Charges by the ids of their arrays."""


class Ledger:
    """The accounts of one device's memory. Safe to use from any thread.

    Each array is charged once, with all the memory it keeps alive, to the op whose kernel returned it first, however
    many views of it there are; the charge ends when the array does. Strings count with their characters.

    Not counted are: memory that a kernel frees before it returns; memory allocated outside of kernels (feeds, views of
    them, and constants until a kernel returns them); scalars; memory that a pool keeps for later use; and all but the
    newest tensors of a long list. A string in several arrays counts in each. An array that devices of one task share
    counts where it was made.
    """

    def __init__(
        self,
        device: str,
        limit: int | None = None,
        arrays: type[Any] = np.ndarray,
        charged: "ChargeTable | None" = None,
    ) -> None:
        """Accounts of nothing.

        Args:
            device: its name, for errors.
            limit: bytes that may be alive at a time; None for no limit.
            arrays: the class of the arrays in its memory.
            charged: the charges of all devices whose arrays are in the same memory; None for this one alone.
        """
        self.device: Final = device
        self.limit: Final = limit
        self._arrays = arrays
        self._held: ChargeTable = {}
        self._charged = {} if charged is None else charged
        self._live = 0
        self._peak = 0
        self._lock = threading.RLock()
        # All that is done when an array dies, on whichever thread, perhaps in the midst of what holds the lock: its
        # charge is appended here, in one atomic step, for whoever comes next to settle.
        self._ended: deque[_Charge] = deque()

    @property
    def live(self) -> int:
        """Bytes alive now."""
        with self._lock:
            self._settle()
            return self._live

    @property
    def peak(self) -> int:
        """The most bytes that were alive at a time, since the last `reset_peak`."""
        return self._peak

    def reset_peak(self) -> None:
        """The peak is what is alive now."""
        with self._lock:
            self._peak = self.live

    def by_op(self) -> list[Holder]:
        """What is alive by the op that made it, the largest first."""
        sums: dict[tuple[str, str], int] = {}
        with self._lock:
            self._settle()
            for charge in self._held.values():
                sums[charge.op, charge.line] = sums.get((charge.op, charge.line), 0) + charge.bytes
        holders = [Holder(op, held, line) for (op, line), held in sums.items() if held]
        return sorted(holders, key=lambda holder: -holder.bytes)

    def use(self) -> MemoryUse:
        """All of it at one moment."""
        with self._lock:
            return MemoryUse(self.live, self.peak, self.limit, tuple(self.by_op()))

    def hold(self, value: Array, op: str, line: str = "", given: Sequence[Array] = ()) -> Array:
        """Charge an array that the op made, and return it. ResourceExhaustedError if it exceeds the device's limit.

        Memory of the kernel's inputs is not charged to the op: another kernel was charged for it, or the caller owns
        it.
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
        """ResourceExhaustedError, which says `what` needed them, if there is no room for so many bytes more."""
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
        """End the charges of arrays that have died."""
        ended = self._ended
        while ended:
            charge = ended.popleft()
            self._live -= charge.bytes
            if self._held.get(charge.key) is charge:  # else another array has its place by now
                del self._held[charge.key]
            if self._charged.get(charge.key) is charge:
                del self._charged[charge.key]

    def _owner(self, array: Array) -> Array:
        """The array whose memory it is."""
        while isinstance(base := array.base, self._arrays):
            array = base
        return array

    def __repr__(self) -> str:
        limit = "" if self.limit is None else f" of {self.limit:,}"
        return f"<Ledger of {self.device}: {self.live:,} bytes{limit}, at most {self.peak:,}>"


def account_results(
    call: Callable[..., Any], ledger: Ledger, node: LedgerNode, *, asynchronous: bool = False
) -> Callable[..., Any]:
    """The function of a kernel, with its results held by the ledger.

    Args:
        call: the kernel, bound to the node.
        ledger: that of the device it runs on.
        node: what its results are charged to.
        asynchronous: whether it returns an awaitable.
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
    """Its bytes, with the characters of strings."""
    size: int = array.nbytes
    return size + sum(map(len, _strings(array))) if array.dtype.kind == "O" else size


def _strings(array: Array) -> Iterable[bytes]:
    return (item for item in array.flat if isinstance(item, bytes))


def _describe_holders(holders: Sequence[Holder]) -> str:
    """`, most of it made by` whom."""
    if not holders:
        return ""
    names = [
        f"{holder.op!r} ({holder.bytes:,} bytes{', built at ' * bool(holder.line)}{holder.line})"
        for holder in holders[:_NAMED]
    ]
    return f"; the largest are {', '.join(names)}"
