"""Shows on the event loop how many bytes of a checkpoint are read or written."""

import asyncio
import contextlib
import inspect
from collections.abc import Iterator
from typing import Final

from aioflow.files.byte_count import Progress, counted
from aioflow.tensors.recursion import safe_repr


@contextlib.contextmanager
def shown(progress: Progress | None) -> Iterator[None]:
    """Call a function with the bytes that the block has read or written, and with all bytes. None for no function.

    The loop calls it, the last time when the block ends. An error of the function ends the calls, and reaches the
    exception handler of the loop. TypeError for something else than a function, before the block begins.
    """
    if progress is None:
        yield
        return
    if not callable(progress) or inspect.iscoroutinefunction(progress):
        raise TypeError(f"progress is a plain function, or an af.train.Progress, not {safe_repr(progress)}")
    relay = _Relay(progress)
    with counted(relay.told):
        try:
            yield
        finally:
            relay.end()


class _Relay:
    """Brings counts from threads to the loop: one call for all counts that came since the last one."""

    def __init__(self, progress: Progress) -> None:
        self._progress: Final = progress
        self._loop: Final = asyncio.get_running_loop()
        self._newest = self._shown = (0, 0)
        self._is_due = self._is_over = False

    def told(self, done: int, total: int) -> None:
        """Take a count, on a thread."""
        self._newest = done, total  # first, as `_show` reads it last
        if not self._is_due and not self._is_over:
            self._is_due = True
            with contextlib.suppress(RuntimeError):  # a kernel that was left behind may outlive the loop
                self._loop.call_soon_threadsafe(self._show)

    def _show(self) -> None:
        self._is_due = False
        newest = self._newest
        if newest == self._shown or self._is_over:
            return
        self._shown = newest
        try:
            self._progress(*newest)
        except Exception as error:
            self._is_over = True
            self._loop.call_exception_handler({"message": "progress cannot be shown", "exception": error})

    def end(self) -> None:
        """Show the last count, and no more."""
        self._show()
        self._is_over = True
