"""The kernels that the compute threads of this process run now, shown to a monitor.

A kernel that holds the GIL lets no other Python code run. So its name is shown before it begins, and the monitor can
report it while the process cannot. While no monitor is subscribed, nothing is recorded.
"""

from collections.abc import Callable
from typing import Final

_LISTENERS: Final[dict[object, Callable[[str], None]]] = {}
_ACTIVE: Final[dict[object, str]] = {}
"""The names of the kernels under way, the oldest first, each under a key of its own."""
_MOST: Final = 3


def begin(job: object, label: str) -> None:
    """Record a kernel that begins on a compute thread."""
    if _LISTENERS:
        _ACTIVE[job] = label
        _publish()


def end(job: object) -> None:
    """It has ended."""
    if _ACTIVE.pop(job, None) is not None:
        _publish()


def subscribe(owner: object, listener: Callable[[str], None]) -> None:
    """Call the listener with the kernels under way, now and at each change, on any thread, until `unsubscribe`."""
    _LISTENERS[owner] = listener
    _publish()


def unsubscribe(owner: object) -> None:
    """Stop calling the owner's listener."""
    _LISTENERS.pop(owner, None)


def _publish() -> None:
    """The newest kernels first: one of them most likely holds up the others."""
    active = list(_ACTIVE.values())
    text = _join_names(active) if len(active) > 1 else "".join(active)
    for listener in list(_LISTENERS.values()):
        listener(text)


def _join_names(active: list[str]) -> str:
    return ", ".join(reversed(active[-_MOST:])) + f" and {len(active) - _MOST} more" * (len(active) > _MOST)
