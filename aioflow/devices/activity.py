"""What the compute threads of this process do now, for a monitor that tells it when the process cannot.

A kernel that holds the GIL lets no other Python code run, so it has to be named before it begins. Nobody is told, and
nothing is spent, as long as no monitor runs.
"""

from collections.abc import Callable
from typing import Final

_LISTENERS: Final[dict[object, Callable[[str], None]]] = {}
_ACTIVE: Final[dict[object, str]] = {}
"""What is under way, the oldest first, by an object of its own."""
_MOST: Final = 3


def begin(job: object, label: str) -> None:
    """Something begins on a thread."""
    if _LISTENERS:
        _ACTIVE[job] = label
        _publish()


def end(job: object) -> None:
    """It has ended."""
    if _ACTIVE.pop(job, None) is not None:
        _publish()


def subscribe(owner: object, listener: Callable[[str], None]) -> None:
    """Tell the listener what is under way, now and at each change, on any thread, until `unsubscribe`."""
    _LISTENERS[owner] = listener
    _publish()


def unsubscribe(owner: object) -> None:
    """Tell that owner's listener nothing more."""
    _LISTENERS.pop(owner, None)


def _publish() -> None:
    """The latest come first: one of them is most likely what holds the others up."""
    active = list(_ACTIVE.values())
    text = _joined(active) if len(active) > 1 else "".join(active)
    for listener in list(_LISTENERS.values()):
        listener(text)


def _joined(active: list[str]) -> str:
    return ", ".join(reversed(active[-_MOST:])) + f" and {len(active) - _MOST} more" * (len(active) > _MOST)


__all__ = ["begin", "end", "subscribe", "unsubscribe"]
