"""Calls of a user's functions: async ones are awaited, others run on threads of the loop's executor.

A thread cannot be stopped. A cursor that closes waits for its running calls for `GRACE` seconds; a call that takes
longer is left behind, and logged with the name and the line of its stage.
"""

import asyncio
import contextlib
import functools
import inspect
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final

from aioflow import errors
from aioflow.data.elements import arguments, as_element
from aioflow.data.stage import Stage
from aioflow.tensors.recursion import safe_repr

_log: Final = logging.getLogger("aioflow.input")

GRACE: Final = 10.0
"""Seconds for which a closing cursor waits for calls on threads."""
Outcome = tuple[Any, BaseException | None]
"""The result of a call, or its error."""


class UserFunction:
    """A function of the user. TypeError if it cannot be called.

    Args:
        function: an ordinary function, or an async one.
        what: its name in errors, such as `map_func`.
    """

    def __init__(self, function: Callable[..., Any], what: str) -> None:
        if not callable(function):
            raise TypeError(f"{what} must be a function, not {safe_repr(function)}")
        self.function: Final = function
        self.is_async: Final = _is_async(function)


class Calls:
    """The calls that one cursor makes.

    Args:
        stage: the stage in the errors of its calls.
        most: the most calls at a time; None for no bound.

    Attributes:
        count: the number of running calls.
    """

    def __init__(self, stage: Stage, most: int | None = None) -> None:
        self._stage: Final = stage
        self._free: Final = None if most is None else asyncio.Semaphore(most)
        self._running: Final[set[asyncio.Future[Outcome]]] = set()
        self.count: int = 0

    async def element(self, function: UserFunction, number: int, element: Any) -> Any:
        """Return the element that the function makes of another one. OpError, with its number, if that fails."""
        return await self.result(number, self.call(function, *arguments(element)), as_components)

    async def result(self, number: int, work: Awaitable[Any], convert: Callable[[Any], Any]) -> Any:
        """Return the converted result of work for the element of that number. OpError if that fails."""
        try:
            return convert(await work)
        except asyncio.CancelledError as error:
            if _is_cancelling():
                raise
            refused = errors.CancelledError("a function raised asyncio.CancelledError")
            raise self._stage.failed(refused, number) from error
        except Exception as error:
            failed = self._stage.failed(_no_end(error), number)
            raise failed from failed.__cause__

    async def call(self, function: UserFunction, *args: Any) -> Any:
        """Return the result of a call: on a thread, or awaited. It waits until fewer than `most` are running."""
        async with self._free or contextlib.nullcontext():
            self.count += 1
            try:
                if function.is_async:
                    return await function.function(*args)
                made = await self.on_thread(function.function, *args)
                return await made if inspect.isawaitable(made) else made
            finally:
                self.count -= 1

    async def on_thread(self, function: Callable[..., Any], *args: Any) -> Any:
        """Return the result of a call on a thread. A cancelled wait leaves the call to `settle`."""
        future = asyncio.get_running_loop().run_in_executor(None, outcome_of, function, args)
        self._running.add(future)
        future.add_done_callback(self._running.discard)
        return result_of(await asyncio.shield(future))

    async def settle(self) -> bool:
        """Wait for the calls that still run on threads, for GRACE seconds at most. Returns whether none is left."""
        if not self._running:
            return True
        _, left = await asyncio.wait(self._running, timeout=GRACE)
        if left:
            what = f"{len(left)} calls of {self._stage.name} at {self._stage.line}"
            _log.warning("%s have not returned within %g s, and are left behind on their threads", what, GRACE)
        return not left


def as_components(made: Any) -> Any:
    """Return the element for what a function returned, whose components may be in a list."""
    return as_element(tuple(made) if isinstance(made, list) else made)


def outcome_of(function: Callable[..., Any], args: tuple[Any, ...]) -> Outcome:
    """Call a function, and return its result or its error: a future refuses to hold a StopIteration."""
    try:
        return function(*args), None
    except BaseException as error:
        return None, error


def result_of(outcome: Outcome) -> Any:
    """Return the result of a call, or raise its error."""
    value, error = outcome
    if error is None:
        return value
    try:
        raise error
    finally:
        del error, outcome  # the error's traceback refers to this frame


def _is_async(function: Any) -> bool:
    while isinstance(function, functools.partial):
        function = function.func
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)


def _no_end(error: Exception) -> Exception:
    """The error of a call; for a StopIteration or StopAsyncIteration one that no caller takes for the end of the data.

    Python does the same in generators (PEP 479), and turns the former into a RuntimeError in coroutines.
    """
    raised = error.__cause__ if isinstance(error, RuntimeError) else error
    if not isinstance(raised, (StopIteration, StopAsyncIteration)):
        return error
    refused = errors.UnknownError(
        f"a function raised {type(raised).__name__}, which does not end the data: end it by take_while, and a "
        "generator by return"
    )
    refused.__cause__ = raised
    return refused


def _is_cancelling() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
