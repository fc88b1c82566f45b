"""Errors as messages: an error is raised at the receiver with the class that it had at the sender.

The traceback and the cause are not sent. Texts that are too long are cut, with a mark.
"""

from typing import Any, Final

from aioflow import errors
from aioflow.net.wire.control_verbs import Failure

_CLASSES: Final = {kind.code: kind for kind in errors.OpError.__subclasses__()}
_MOST: Final = {"message": 4096, "op": 512, "op_type": 256, "device": 256, "task": 256, "line": 512}


def failure_of(error: BaseException, task: str) -> Failure:
    """Return the message for an error that happened in `task`."""
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
    """Return at most `most` characters of the text, without characters that UTF-8 cannot encode."""
    clean = text.encode(errors="backslashreplace").decode()
    return clean if len(clean) <= most else clean[: most - 4] + " ..."


def first_error(several: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the first error of a group that does not follow from another one."""
    found: list[BaseException] = []
    for error in several.exceptions:
        found += [first_error(error)] if isinstance(error, BaseExceptionGroup) else [error]
    return next((error for error in found if not isinstance(error, errors.CancelledError)), found[0])
