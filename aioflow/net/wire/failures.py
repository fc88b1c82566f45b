"""Errors as messages, and back: what is raised on this side is of the class that was raised on the other.

A traceback does not travel, nor does the cause. Texts that are too long are cut, with a mark.
"""

from typing import Any, Final

from aioflow import errors
from aioflow.net.wire.control_verbs import Failure

_CLASSES: Final = {kind.code: kind for kind in errors.OpError.__subclasses__()}
_MOST: Final = {"message": 4096, "op": 512, "op_type": 256, "device": 256, "task": 256, "line": 512}


def failure_of(error: BaseException, task: str) -> Failure:
    """What is sent of an error that happened in `task`."""
    fault = errors.from_exception(error)
    texts = {name: getattr(fault, name) for name in _MOST} | {"task": fault.task or task}
    cut: dict[str, Any] = {name: text and _cut(text, _MOST[name]) for name, text in texts.items()}
    return Failure(
        fault.code,
        **cut,
        shapes=tuple([_cut(shape, 128) for shape in fault.shapes[:16]]),
        notes=tuple([_cut(note, 512) for note in getattr(error, "__notes__", ())[:8]]),
    )


def error_of(failure: Failure) -> errors.OpError:
    """The error that a peer sent. A code that is not known, of a later version, makes an UnknownError."""
    kind = _CLASSES.get(failure.code)
    message = failure.message if kind is not None else f"{failure.message} (an error of the kind {failure.code!r})"
    error = (kind or errors.UnknownError)(message, op=failure.op, task=failure.task)
    error.op_type, error.device, error.line = failure.op_type, failure.device, failure.line
    error.shapes = failure.shapes
    for note in failure.notes:
        error.add_note(note)
    return error


def _cut(text: str, most: int) -> str:
    """The text in at most so many characters, without what UTF-8 cannot hold."""
    clean = text.encode(errors="backslashreplace").decode()
    return clean if len(clean) <= most else clean[: most - 4] + " ..."


def first_error(several: BaseExceptionGroup[BaseException]) -> BaseException:
    """What went wrong first and follows from nothing else."""
    found: list[BaseException] = []
    for error in several.exceptions:
        found += [first_error(error)] if isinstance(error, BaseExceptionGroup) else [error]
    return next((error for error in found if not isinstance(error, errors.CancelledError)), found[0])
