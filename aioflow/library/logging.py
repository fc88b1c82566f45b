"""`af.logging`: messages under the names of TensorFlow's `logging`, sent to Python's logger `aioflow`."""

import collections
import itertools
import logging
import sys
from collections.abc import Iterator
from typing import Any, Final

from aioflow.lazy import Face

_logger: Final = logging.getLogger("aioflow")
_CALLER: Final = 2
"""A record names the line that called the function here."""
DEBUG: Final = logging.DEBUG
INFO: Final = logging.INFO
WARN: Final = logging.WARNING
ERROR: Final = logging.ERROR
FATAL: Final = logging.CRITICAL
_counts: Final[dict[tuple[str, int], Iterator[int]]] = collections.defaultdict(itertools.count)
"""How often each line of a program has called a function that counts."""


def get_logger() -> logging.Logger:
    """Return Python's logger `aioflow`, above those of all parts of aioflow.

    Examples:
        >>> af.get_logger().name
        'aioflow'
    """
    return _logger


def log(level: int, msg: object, *args: object, **kwargs: Any) -> None:
    """Log `msg % args` at a level.

    Examples:
        >>> af.logging.log(af.logging.INFO, "step %d", 1)
    """
    _logger.log(level, msg, *args, stacklevel=_CALLER, **kwargs)


def vlog(level: int, msg: object, *args: object, **kwargs: Any) -> None:
    """Log `msg % args` at a level.

    Examples:
        >>> af.logging.vlog(2, "step %d", 1)
    """
    _logger.log(level, msg, *args, stacklevel=_CALLER, **kwargs)


def debug(msg: object, *args: object, **kwargs: Any) -> None:
    """Log `msg % args` at the level DEBUG.

    Examples:
        >>> af.logging.debug("step %d", 1)
    """
    _logger.debug(msg, *args, stacklevel=_CALLER, **kwargs)


def info(msg: object, *args: object, **kwargs: Any) -> None:
    """Log `msg % args` at the level INFO.

    Examples:
        >>> af.logging.info("step %d", 1)
    """
    _logger.info(msg, *args, stacklevel=_CALLER, **kwargs)


def warning(msg: object, *args: object, **kwargs: Any) -> None:
    """Log `msg % args` at the level WARN.

    Examples:
        >>> af.logging.warn("step %d is slow", 1)
    """
    _logger.warning(msg, *args, stacklevel=_CALLER, **kwargs)


warn: Final = warning


def error(msg: object, *args: object, **kwargs: Any) -> None:
    """Log `msg % args` at the level ERROR.

    Examples:
        >>> af.logging.error("no rows in %s", "data.csv")
    """
    _logger.error(msg, *args, stacklevel=_CALLER, **kwargs)


def fatal(msg: object, *args: object, **kwargs: Any) -> None:
    """Log `msg % args` at the level FATAL. The program goes on.

    Examples:
        >>> af.logging.fatal("no rows in %s", "data.csv")
    """
    _logger.critical(msg, *args, stacklevel=_CALLER, **kwargs)


def TaskLevelStatusMessage(msg: object) -> None:
    """Log `msg` at the level ERROR.

    Examples:
        >>> af.logging.TaskLevelStatusMessage("loaded 3 rows")
    """
    _logger.error(msg, stacklevel=_CALLER)


def log_if(level: int, msg: object, condition: object, *args: object) -> None:
    """Log `msg % args` if the condition holds.

    Examples:
        >>> af.logging.log_if(af.logging.INFO, "step %d", True, 1)
    """
    if condition:
        _logger.log(level, msg, *args, stacklevel=_CALLER)


def log_every_n(level: int, msg: object, n: int, *args: object) -> None:
    """Log `msg % args` the first of every `n` times that the same line calls this.

    Examples:
        >>> for step in range(100):
        ...     af.logging.log_every_n(af.logging.INFO, "step %d", 10, step)
    """
    if _times_called() % n == 0:
        _logger.log(level, msg, *args, stacklevel=_CALLER)


def log_first_n(level: int, msg: object, n: int, *args: object) -> None:
    """Log `msg % args` the first `n` times that the same line calls this.

    Examples:
        >>> for step in range(100):
        ...     af.logging.log_first_n(af.logging.INFO, "step %d", 3, step)
    """
    if _times_called() < n:
        _logger.log(level, msg, *args, stacklevel=_CALLER)


def _times_called() -> int:
    """Return how often the line that called a function here has called it before."""
    frame = sys._getframe(2)
    return next(_counts[frame.f_code.co_filename, frame.f_lineno])


def get_verbosity() -> int:
    """Return the least level of messages that the logger handles.

    Examples:
        >>> af.logging.get_verbosity() == af.logging.WARN
        True
    """
    return _logger.getEffectiveLevel()


def set_verbosity(v: int) -> None:
    """Set the least level of messages that the logger handles.

    Examples:
        >>> before = af.logging.get_verbosity()
        >>> af.logging.set_verbosity(af.logging.ERROR)
        >>> af.logging.get_verbosity() == af.logging.ERROR
        True
        >>> af.logging.set_verbosity(before)
    """
    _logger.setLevel(v)


def flush() -> None:
    """Flush the handlers of the logger.

    Examples:
        >>> af.logging.flush()
    """
    for handler in _logger.handlers:
        handler.flush()


__all__ = [
    "DEBUG",
    "ERROR",
    "FATAL",
    "INFO",
    "WARN",
    "TaskLevelStatusMessage",
    "debug",
    "error",
    "fatal",
    "flush",
    "get_verbosity",
    "info",
    "log",
    "log_every_n",
    "log_first_n",
    "log_if",
    "set_verbosity",
    "vlog",
    "warn",
    "warning",
]  # fmt: skip
Face(__name__, {__name__: " ".join(__all__)})
