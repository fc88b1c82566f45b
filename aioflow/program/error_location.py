"""From what a kernel raised to the error the user sees: which node, which line of the program, which shapes."""

import asyncio
import contextlib
import opcode
from collections.abc import Callable, Sequence
from types import TracebackType
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
"""Which node of several raised; None if it was none of them."""
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
    """`error` as an OpError that says where; as it is if it is a cancellation of this task or ends the program."""
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
    """No frame of the traceback that has ended holds anything.

    Before Python 3.13 clearing a suspended frame would close its coroutine: that of somebody who caught the error when
    it was raised before, and does something else by now.
    """
    while trace is not None:
        frame, trace = trace.tb_frame, trace.tb_next
        if frame.f_lasti < 0 or frame.f_code.co_code[frame.f_lasti] != _YIELD:
            with contextlib.suppress(RuntimeError):  # it runs
                frame.clear()


def reraise(made: BaseException) -> NoReturn:
    """Raise what `located` made. No frame keeps it: its traceback would keep that frame, and all that it holds."""
    try:
        raise made from made.__cause__
    finally:
        del made


def _explained(error: BaseException, node: Node, inputs: Sequence[Array]) -> BaseException:
    """`error`, or what the op's shape rule says of the inputs if they are what NumPy complains of."""
    if not isinstance(error, (ValueError, TypeError, IndexError)):
        return error
    try:
        specs = _specs(node, inputs)
    except (TypeError, StopIteration):  # of values that are no arrays
        return error
    text = known.refusal(node.definition, node.attrs, specs)
    if text is None:
        return error
    made = errors.InvalidArgumentError(text)
    made.__cause__ = error
    return made


def _specs(node: Node, inputs: Sequence[Array]) -> list[Spec]:
    """What the inputs were; a handle as the plan knows it, and so what is not among the inputs of a node alone."""
    given = iter(inputs)
    whole = len(inputs) == len(node.inputs)
    specs = []
    for value in node.inputs:
        present = whole or not _is_literal(value.node)
        array = next(given) if present else None
        specs.append(value.spec if array is None or value.spec.dtype is dtypes.resource else known.of(array))
    return specs


def _own_cancellation(error: BaseException) -> bool:
    """Whether a kernel raised asyncio.CancelledError by itself, though nobody cancelled this task."""
    if not isinstance(error, asyncio.CancelledError):
        return False
    task = asyncio.current_task()
    return task is not None and not task.cancelling()


def _unwrapped(error: BaseException) -> BaseException:
    """Coroutines turn StopIteration into RuntimeError: the one that was raised."""
    if isinstance(error, asyncio.CancelledError):
        return errors.CancelledError("the kernel raised asyncio.CancelledError")
    cause = error.__cause__
    return cause if isinstance(error, RuntimeError) and isinstance(cause, StopIteration | StopAsyncIteration) else error


def _shapes(node: Node, inputs: Sequence[Array]) -> list[str]:
    """What each input was. Constants and handles are not among the inputs of a node that runs alone."""
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
