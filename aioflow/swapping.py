"""Large values that wait for long, moved to host memory while the device's own is nearly full."""

from typing import Any, Final

from aioflow.dtypes import Array, Namespace

SMALLEST: Final = 2048
"""Bytes: what is no larger stays where it is."""
FULL: Final = 0.7
"""The share of the device's memory in use from which on values are moved."""


class Swapped:
    """A device's array whose elements are in host memory."""

    __slots__ = ("host",)

    def __init__(self, host: Array) -> None:
        self.host: Final = host


def put_away(xp: Namespace, value: Array) -> Any:
    """`value`, or what stands for it in host memory if it is large and its device nearly full. On a CPU itself."""
    if not hasattr(xp, "asnumpy") or not isinstance(value, xp.ndarray) or value.nbytes <= SMALLEST:
        return value
    return Swapped(xp.asnumpy(value)) if used(xp) > FULL else value


def taken_back(xp: Namespace, value: Any) -> Array:
    """What `put_away` was given, on the device."""
    return xp.asarray(value.host) if isinstance(value, Swapped) else value


def used(xp: Namespace) -> float:
    """The share of its memory that a device uses; what its pool keeps for later use counts as free."""
    pool = xp.get_default_memory_pool()
    limit = pool.get_limit()
    if limit:
        return float(pool.used_bytes() / limit)
    free, total = xp.cuda.runtime.memGetInfo()
    return float(1 - (free + pool.free_bytes()) / total)


__all__ = ["FULL", "SMALLEST", "Swapped", "put_away", "taken_back", "used"]
