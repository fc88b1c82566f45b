"""Turns the exception of a kernel into an error with the node, the user's line and the shapes."""

import asyncio
import contextlib
import opcode
from collections.abc import Callable, Sequence
from types import FrameType, TracebackType
from typing import Any, Final, NoReturn

from aioflow import errors
from aioflow.graph.operation import describe_line
from aioflow.kernels import known
from aioflow.plan.passes.flow import Node
from aioflow.tensors import dtypes
from aioflow.tensors.dtypes import Array, Spec, spec_of

Found = tuple[Node, Sequence[Array], str]
"""A node that raised, its inputs, and in which iterations of which loops; empty outside of loops."""
Finder = Callable[[BaseException], Found | None]
"""Finds the node of a region that raised an exception; None if no node did."""
Place = tuple[Node, str]
"""The node that a coroutine computes, and a text with the iterations of the loops around it; empty outside of loops."""
Placer = Callable[[Any], Place | None]
"""Finds the node that a coroutine computes now by reading its frame. This costs the coroutine nothing, and is safe
while it runs on another thread. None if the coroutine has not begun or has ended.
"""
_YIELD: Final = opcode.opmap["YIELD_VALUE"]


def located(
    error: BaseException, find: Finder | None, node: Node, inputs: Sequence[Array], device: str
) -> BaseException:
    """Return `error` as an OpError with its place. A cancellation of this task, or an exit, is returned as it is."""
    if not isinstance(error, Exception) and not _own_cancellation(error):
        return error
    root = _unwrapped(error)
    found = find(root if root.__traceback__ is not None else error) if find is not None else None
    node, inputs, where = found or (node, inputs, "")
    shapes = _shapes(node, inputs)
    made = errors.from_exception(_explained(root, node, inputs))
    made.at(
        node.name,
        node.definition.name,
        line=describe_line(node.operation),
        device=device,
        shapes=shapes,
    )
    if where:
        made.add_note(f"aioflow: {where}")
    clear_frames(error.__traceback__)  # the frames hold the step's tensors
    return made


def clear_frames(trace: TracebackType | None) -> None:
    """Clear the locals of all ended frames of the traceback.

    Before Python 3.13 clearing a suspended frame would close its coroutine, which may have caught the error earlier and
    may do other work by now.
    """
    while trace is not None:
        frame, trace = trace.tb_frame, trace.tb_next
        if frame.f_lasti < 0 or frame.f_code.co_code[frame.f_lasti] != _YIELD:
            with contextlib.suppress(RuntimeError):  # it runs
                frame.clear()


def locals_of(frame: FrameType) -> dict[str, Any]:
    """The local variables of a frame, which may run on another thread."""
    seen = frame.f_locals
    found = dict(seen)
    if isinstance(seen, dict):
        seen.clear()  # before Python 3.13 a copy, which the frame would keep alive
    return found


def reraise(made: BaseException) -> NoReturn:
    """Raise the result of `located`. No frame keeps the error, since its traceback would keep that frame's locals."""
    try:
        raise made from made.__cause__
    finally:
        del made


def _explained(error: BaseException, node: Node, inputs: Sequence[Array]) -> BaseException:
    """Return `error`, or the error of the op's shape rule for these inputs, if NumPy refused them."""
    if not isinstance(error, (ValueError, TypeError, IndexError)):
        return error
    try:
        specs = _specs(node, inputs)
    except (TypeError, StopIteration):  # from values that are not arrays
        return error
    text = known.refusal(node.definition, node.attrs, specs)
    if text is None:
        return error
    made = errors.InvalidArgumentError(text)
    made.__cause__ = error
    return made


def _specs(node: Node, inputs: Sequence[Array]) -> list[Spec]:
    """Return the Specs of the inputs; handles and constants as the plan knows them."""
    given = iter(inputs)
    whole = len(inputs) == len(node.inputs)
    specs = []
    for value in node.inputs:
        present = whole or not _is_literal(value.node)
        array = next(given) if present else None
        specs.append(value.spec if array is None or value.spec.dtype is dtypes.resource else known.of(array))
    return specs


def _own_cancellation(error: BaseException) -> bool:
    """Whether a kernel raised asyncio.CancelledError although this task is not cancelled."""
    if not isinstance(error, asyncio.CancelledError):
        return False
    task = asyncio.current_task()
    return task is None or not task.cancelling()


def _unwrapped(error: BaseException) -> BaseException:
    """Coroutines turn StopIteration into RuntimeError: the one that was raised."""
    if isinstance(error, asyncio.CancelledError):
        return errors.CancelledError("the kernel raised asyncio.CancelledError")
    cause = error.__cause__
    return cause if isinstance(error, RuntimeError) and isinstance(cause, StopIteration | StopAsyncIteration) else error


def _shapes(node: Node, inputs: Sequence[Array]) -> list[str]:
    """Return the text of each input. Constants and handles are not among the inputs of a node that runs alone."""
    if len(inputs) == len(node.inputs):
        return [_describe(value) for value in inputs]
    given = iter(inputs)
    return [str(value.spec) if _is_literal(value.node) else _describe(next(given, None)) for value in node.inputs]


def _is_literal(node: Node) -> bool:
    """Whether the plan knows its value: a constant, or a handle."""
    return node.definition.name == "constant" or node.definition.handle


def _describe(value: Any) -> str:
    try:
        return str(spec_of(value))
    except TypeError:
        return type(value).__name__
