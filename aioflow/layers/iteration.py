"""Steps of iterators: async ones are awaited, others run on threads of the loop's executor.

A thread cannot be stopped, so a cancelled step leaves its thread with the iterator, which may serve one call at a time.
The call stays with the iterator until another step has taken its element.
"""

import asyncio
import contextvars
import weakref
from collections.abc import AsyncIterator
from concurrent.futures import Future
from typing import Any, Final

from aioflow.data.calls import Outcome, outcome_of, result_of

END: Final = object()
"""The step after the last element."""


class _Call:
    """A call of `next` on a thread.

    Attributes:
        ended: its outcome.
        is_taken: whether a step has taken the outcome.
    """

    def __init__(self, iterator: Any) -> None:
        self.ended: Final[Future[Outcome]] = Future()
        self.ended.set_running_or_notify_cancel()  # from here on a cancelled wait cannot cancel it
        self.is_taken: bool = False
        work = contextvars.copy_context().run
        asyncio.get_running_loop().run_in_executor(None, work, self._perform, iterator)

    def _perform(self, iterator: Any) -> None:
        self.ended.set_result(outcome_of(next, (iterator, END)))


_calls: Final[dict[int, _Call]] = {}
"""The calls whose outcome no step has taken, by the id of the iterator."""


async def step(iterator: Any) -> Any:
    """The next element of an iterator, or END.

    If it is cancelled, the next step waits for the thread, and returns the element that the thread has made. Iterators
    that cannot have weak references, such as those of `zip`, lose this element if the thread ends first.
    """
    if isinstance(iterator, AsyncIterator):
        return await anext(iterator, END)
    while True:
        call = _calls.get(id(iterator)) or _calls.setdefault(id(iterator), _Call(iterator))
        try:
            outcome = await asyncio.wrap_future(call.ended)
        except BaseException:
            _leave(call, iterator)
            raise
        if call.is_taken:  # by a step that has waited, too
            continue
        _take(call, iterator)
        try:
            return result_of(outcome)
        finally:
            del call, outcome  # an error in them has a traceback that refers to this frame


def _take(call: _Call, iterator: Any) -> None:
    call.is_taken = True
    if _calls.get(id(iterator)) is call:
        del _calls[id(iterator)]


def _leave(call: _Call, iterator: Any) -> None:
    """Keep the call for the next step, as long as the iterator lives; until it ends if that cannot be told."""
    key = id(iterator)
    try:
        weakref.finalize(iterator, _calls.pop, key, None).atexit = False
    except TypeError:
        call.ended.add_done_callback(lambda _: _calls.pop(key, None))
