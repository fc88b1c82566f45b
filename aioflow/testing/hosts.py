"""Simulated hosts: many machines in one process and one event loop. Each task and each timer belongs to one host.

A host is a context variable. Tasks and timers inherit it, so the host of every callback is known, and the callbacks of
one host can be held back while all others run: the host is paused, like a process by SIGSTOP. It neither reads nor
writes, and its timers fire late.
"""

import asyncio
import contextlib
import contextvars
import itertools
import random
import secrets
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any, Final

from aioflow.testing.loop import VirtualTimeLoop
from aioflow.waiting.tasks import slice_of

_LATE: Final = 1e9
"""Seconds. A slice of time that begins then does not end for compiled code either, which reads the real clock."""
_HOST: Final = contextvars.ContextVar("aioflow.testing.host", default="")


def current_host() -> str:
    """Return the host of the running code; empty for none.

    Examples:
        >>> from aioflow.testing import current_host, on_host
        >>> with on_host("worker0"):
        ...     print(current_host())
        worker0
    """
    return _HOST.get()


@contextlib.contextmanager
def on_host(host: str) -> Iterator[None]:
    """Start everything in the block on that host.

    Examples:
        >>> from aioflow.testing import current_host, on_host
        >>> with on_host("worker0"):
        ...     print(current_host())
        worker0
    """
    token = _HOST.set(host)
    try:
        yield
    finally:
        _HOST.reset(token)


def _do_nothing() -> None:
    """Do nothing, in place of a callback that is held back."""


class _Ready(deque[asyncio.Handle]):
    """The callbacks that a loop is about to run. It sets those of paused hosts aside when their turn comes."""

    def __init__(self, handles: Iterable[asyncio.Handle], held: dict[str, list[asyncio.Handle]]) -> None:
        super().__init__(handles)
        self._held: Final = held

    def popleft(self) -> asyncio.Handle:
        """Remove and return the next callback of a host that is not paused."""
        while self:
            handle: Any = super().popleft()
            aside = self._held.get(handle._context.get(_HOST)) if self._held else None
            if aside is None:
                return handle  # type: ignore[no-any-return]
            aside.append(handle)
        return asyncio.Handle(_do_nothing, (), asyncio.get_running_loop())


class Hosts:
    """The paused hosts of the running loop."""

    def __init__(self) -> None:
        self._held: Final[dict[str, list[asyncio.Handle]]] = {}

    @property
    def paused(self) -> tuple[str, ...]:
        """The names of the paused hosts."""
        return tuple(self._held)

    def pause(self, host: str) -> None:
        """Run no more callbacks of that host. May be called again."""
        loop: Any = asyncio.get_running_loop()
        if not isinstance(loop, VirtualTimeLoop):
            raise RuntimeError(f"hosts can be paused on a VirtualTimeLoop, not on {type(loop).__name__}")
        if not self._held:
            loop._ready = _Ready(_ready(loop), self._held)  # type: ignore[attr-defined]
        self._held.setdefault(host, [])

    def resume(self, host: str) -> None:
        """Run the callbacks that were held back, and all later ones. May be called again."""
        _ready(asyncio.get_running_loop()).extend(self._held.pop(host, ()))


def _ready(loop: Any) -> deque[asyncio.Handle]:
    ready: deque[asyncio.Handle] = loop._ready
    return ready


class _NumberedTask(asyncio.Task[Any]):
    """A task whose position in a set does not depend on its address."""

    def __init__(self, number: int, coroutine: Any, **options: Any) -> None:
        self._number = number
        super().__init__(coroutine, **options)

    def __hash__(self) -> int:
        return self._number


@contextlib.contextmanager
def ids_drawn_from(seed: object) -> Iterator[None]:
    """Make the ids of incarnations, sessions and steps in the block the same in every run.

    Messages and texts of errors contain them, so the lengths of messages, and therefore their times, depend on them.
    """
    draw = random.Random(f"{seed} ids")
    drawn = {"randbits": draw.getrandbits, "token_hex": lambda nbytes=32: draw.randbytes(nbytes).hex()}
    before = {name: getattr(secrets, name) for name in drawn}
    for name, function in drawn.items():
        setattr(secrets, name, function)
    try:
        yield
    finally:
        for name, function in before.items():
            setattr(secrets, name, function)


@contextlib.contextmanager
def work_in_no_time() -> Iterator[None]:
    """Make every piece of inline work in the block take no time, so that the speed of the machine decides nothing.

    Sessions measure their work: they let the loop turn after some of it, and run work that took long on a thread.
    """
    piece = slice_of(asyncio.get_running_loop())
    before, piece.clock = piece.clock, lambda: _LATE
    try:
        yield
    finally:
        piece.clock = before


@contextlib.contextmanager
def tasks_in_order() -> Iterator[None]:
    """Make every iteration over a set of tasks created in the block have the same order in every run."""
    loop, numbers = asyncio.get_running_loop(), itertools.count()
    before = loop.get_task_factory()
    loop.set_task_factory(
        lambda loop, coroutine, **options: _NumberedTask(next(numbers), coroutine, loop=loop, **options)
    )
    try:
        yield
    finally:
        loop.set_task_factory(before)
