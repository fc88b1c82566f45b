"""The threads of OpenMP, by which oneDNN computes: one thread of the process at a time should have some.

GNU's OpenMP keeps some for each thread that calls it. If all of them together are more than the processors, idle ones
sleep at once, and each primitive waits until they wake: an LSTM takes 1.4 times as long.
"""

import weakref
from typing import Final

from aioflow.devices import onednn
from aioflow.devices.cpu import Threads

_last: Final[list[weakref.ref[Threads]]] = []
"""The compute threads that had some last."""


def end() -> None:
    """End those of the calling thread. Its next primitive starts them again."""
    library = onednn.loaded()
    if library is not None:
        library.end_threads()


def hand_to(compute: Threads) -> None:
    """Before work goes to compute threads: end those of the calling thread, and of other compute threads that rest."""
    if onednn.loaded() is None:
        return
    end()
    last = _last.pop()() if _last else None
    _last.append(weakref.ref(compute))
    if last is not None and last is not compute:
        last.call_on_free(end)
