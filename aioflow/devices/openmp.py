"""The worker threads of OpenMP, which oneDNN uses: one calling thread of the process at a time should have some.

GNU's OpenMP keeps worker threads for each calling thread. If the process has more of them than processors, an idle
worker thread sleeps at once, and each primitive waits until it wakes: an LSTM takes 1.4 times as long.
"""

import weakref
from typing import Final

from aioflow.devices import onednn
from aioflow.devices.cpu import Threads

holders: Final[list[weakref.ref[Threads]]] = []
"""The compute threads that had worker threads last; empty if a loop took over."""


def end() -> None:
    """End the worker threads of the calling thread. Its next primitive starts them again."""
    library = onednn.loaded()
    if library is not None:
        library.end_threads()


def hand_to(compute: Threads) -> None:
    """Before `compute` works: end the worker threads of the calling thread, and of other compute threads that rest."""
    if onednn.loaded() is None:
        return
    end()
    before, holders[:] = holders[:], [weakref.ref(compute, _forget)]  # loops in several threads may do so at once
    for last in [reference() for reference in before]:
        if last is not None and last is not compute:
            last.call_on_free(end)


def _forget(reference: "weakref.ref[Threads]") -> None:
    holders[:] = [each for each in holders if each is not reference]


def take() -> None:
    """Before the calling thread, that of a loop, works: end the worker threads of compute threads.

    Threads that rest end theirs now, and others after their work: `is_taken` tells them.
    """
    before, holders[:] = holders[:], []
    for compute in [reference() for reference in before]:
        if compute is not None:
            compute.call_on_free(end)


def is_taken(compute: Threads) -> bool:
    """Whether another thread has taken over since `hand_to(compute)`."""
    return all(reference() is not compute for reference in holders[:])
