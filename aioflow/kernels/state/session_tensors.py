"""Tensors that stay in a session between its runs, each under a handle that a run returns.

A handle is text: the dtype, a number, and the device of the value, as `float32;7;/job:worker/task:0/device:CPU:0`. The
values lie in the session's container, so they end with the session.
"""

import itertools
from typing import Final

import numpy as np

from aioflow import errors
from aioflow.graph.kernel import NodeView
from aioflow.graph.op import op
from aioflow.kernels.context import Context, Undo
from aioflow.kernels.state.readers import text_of
from aioflow.tensors import dtypes
from aioflow.tensors.dtypes import SCALAR, Array, DeviceKind, DType, ListSpec, ResourceSpec, Spec

CPU = DeviceKind.CPU
_numbers: Final = itertools.count(1)


class SessionTensor:
    """A tensor in a container.

    Attributes:
        value: its value, which no kernel changes.
    """

    def __init__(self, value: Array) -> None:
        self.value: Final = value

    def release(self) -> None:
        """Forget nothing: the memory is free when the container forgets this."""


@op(stateful=True)
def get_session_handle(data: Spec) -> Spec:
    """Keep a tensor in the session. Returns its handle."""
    if isinstance(data, (ListSpec, ResourceSpec)):
        raise TypeError(f"{data} has no value that could stay in a session")
    return Spec(dtypes.string, SCALAR)


get_session_handle.no_gradient("a handle is a text")


@get_session_handle.kernel(CPU)
def _(ctx: Context, data: Array, *, node: NodeView) -> Array:
    place = "" if ctx.device is None else ctx.device.name
    handle = f"{node.input_specs[0].dtype.name};{next(_numbers)};{place}"
    container = ctx.resources.container("")
    container.lookup_or_create(SessionTensor, handle, lambda: SessionTensor(np.array(data)))
    ctx.step.common(Undo).add(lambda: container.discard(SessionTensor, handle))
    made = np.empty((), object)
    made[()] = handle.encode()
    return made


@op(stateful=True, observes=True)
def get_session_tensor(handle: Spec, dtype: DType) -> Spec:
    """The tensor of a handle. NotFoundError if the session has none."""
    _check_handle(handle)
    return Spec(dtype)


get_session_tensor.no_gradient("the tensor of an earlier run has no history in this one")


@get_session_tensor.kernel(CPU)
def _(ctx: Context, handle: Array, *, dtype: DType) -> Array:
    name = _text(handle)
    try:
        found = ctx.resources.container("").lookup(SessionTensor, name).value
    except errors.NotFoundError:
        raise _missing(name) from None
    if found.dtype != dtype.np:
        raise errors.InvalidArgumentError(f"the tensor of handle {name!r} is {found.dtype}, and not {dtype.name}")
    return found.copy()


@op(stateful=True)
def delete_session_tensor(handle: Spec) -> None:
    """Forget the tensor of a handle. NotFoundError if the session has none."""
    _check_handle(handle)


delete_session_tensor.no_gradient("it has no output")


@delete_session_tensor.kernel(CPU)
def _(ctx: Context, handle: Array) -> None:
    name = _text(handle)
    if not ctx.resources.container("").discard(SessionTensor, name):
        raise _missing(name)


def _check_handle(handle: Spec) -> None:
    if handle.only(dtypes.STRING).rank not in (None, 0):
        raise ValueError(f"a handle is one text, its shape is {handle.shape}")


def _text(handle: Array) -> str:
    return text_of(handle).decode(errors="replace")


def _missing(handle: str) -> errors.NotFoundError:
    return errors.NotFoundError(
        f"the session has no tensor of handle {handle[:200]!r}: it was deleted, or another session has it"
    )
