"""The parameters of a request of the Open Inference Protocol that say how it is run."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Mapping
from typing import Any, Final, NamedTuple, TypeVar

from aioflow import errors
from aioflow.saved_model.signature import SERVING_DEFAULT
from aioflow.tensors.recursion import short_repr

T = TypeVar("T")
_MICROSECONDS: Final = 1e6


class RequestOptions(NamedTuple):
    """How a request is run.

    Attributes:
        signature: the signature to run.
        priority: the level of priority.
        timeout: the seconds until the answer, of a stream until its end; None for no limit.
    """

    signature: str
    priority: int
    timeout: float | None

    @classmethod
    def read(cls, parameters: Mapping[str, Any]) -> "RequestOptions":
        """Return the options in the parameters. InvalidArgumentError names a wrong one."""
        timeout = read_option(parameters, "timeout", 0)
        return cls(
            read_option(parameters, "signature_name", SERVING_DEFAULT), read_option(parameters, "priority", 0),
            timeout / _MICROSECONDS if timeout > 0 else None,
        )  # fmt: skip


def read_option(parameters: Mapping[str, Any], name: str, default: Any) -> Any:
    """Return a parameter of the type of its default. InvalidArgumentError if it has another type."""
    value = parameters.get(name, default)
    if type(value) is not type(default):
        kind = type(default).__name__
        raise errors.InvalidArgumentError(f"parameter {name!r} must be of type {kind}, not {short_repr(value)}")
    if type(value) is int and not -(2**63) <= value < 2**63:
        raise errors.InvalidArgumentError(f"parameter {name!r} must fit into 64 bits, not {short_repr(value)}")
    return value


async def in_time(answer: Awaitable[T], seconds: float) -> T:
    """TimeoutError when the time is over."""
    async with asyncio.timeout(seconds):
        return await answer


async def each_in_time(iterations: AsyncIterator[T], seconds: float | None) -> AsyncIterator[T]:
    """The elements. TimeoutError when the time for all of them is over."""
    deadline = None if seconds is None else asyncio.get_running_loop().time() + seconds
    while True:
        try:
            async with asyncio.timeout_at(deadline):
                element = await anext(iterations)
        except StopAsyncIteration:
            return
        yield element
