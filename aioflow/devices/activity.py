"""Reports the kernels that run on compute threads of this process to a monitor.

A kernel that holds the GIL lets no other Python code run. So its name is reported before it begins, and the monitor can
show it while the process cannot answer. Without a subscribed monitor nothing is recorded.
"""

from collections.abc import Callable
from typing import Final

_LISTENERS: Final[dict[object, Callable[[str], None]]] = {}
_ACTIVE: Final[dict[object, str]] = {}
"""{job: name of its kernel} of the running kernels, the oldest first."""
_MOST: Final = 3


def begin(job: object, label: str) -> None:
    """Record that a kernel begins on a compute thread."""
    if _LISTENERS:
        _ACTIVE[job] = label
        _publish()


def end(job: object) -> None:
    """Record that the kernel has ended."""
    if _ACTIVE.pop(job, None) is not None:
        _publish()


def subscribe(owner: object, listener: Callable[[str], None]) -> None:
    """Call the listener with the running kernels, now and at each change, on any thread, until `unsubscribe`."""
    _LISTENERS[owner] = listener
    _publish()


def unsubscribe(owner: object) -> None:
    """Stop calling the owner's listener."""
    _LISTENERS.pop(owner, None)


def _publish() -> None:
    """Report the newest kernels first, since one of them probably blocks the others."""
    active = list(_ACTIVE.values())
    text = _join_names(active) if len(active) > 1 else "".join(active)
    for listener in list(_LISTENERS.values()):
        listener(text)


def _join_names(active: list[str]) -> str:
    return ", ".join(reversed(active[-_MOST:])) + f" and {len(active) - _MOST} more" * (len(active) > _MOST)
