"""Tensors that stay in a session between its runs, each under a handle."""

import contextlib
import weakref
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from aioflow.graph.building import get_default_graph, same_graph
from aioflow.graph.composites import COMPOSITES, Composite
from aioflow.graph.convert import TensorLike, convert_to_tensor
from aioflow.graph.default_session import current_session
from aioflow.graph.device_spec import DeviceSpec
from aioflow.graph.graph import Graph
from aioflow.graph.operation import Operation, Tensor
from aioflow.kernels.array.constants import placeholder
from aioflow.kernels.state import session_tensors as kernels
from aioflow.tensors import dtypes
from aioflow.tensors.dtypes import Array, DType, DTypeLike, as_dtype
from aioflow.tensors.recursion import safe_repr

_built: Final[weakref.WeakKeyDictionary[Graph, dict[tuple[Any, ...], tuple[Tensor, Any]]]] = weakref.WeakKeyDictionary()
"""The operations of handles that read or delete their tensors, by graph."""


class TensorHandle:
    """The handle of a tensor that stays in a session.

    Attributes:
        handle: its text.
        dtype: the dtype of the tensor.

    Examples:
        >>> handle = await session.run(af.get_session_handle(af.constant([1, 2])))
        >>> await handle.eval()
        array([1, 2], dtype=int32)
        >>> await handle.delete()
    """

    def __init__(self, handle: str, dtype: DType) -> None:
        self.handle: Final = handle
        self.dtype: Final = dtype

    async def eval(self) -> Any:
        """Return the tensor, in the default session. NotFoundError if it was deleted."""
        holder, tensor = self._built(("read", self.dtype), lambda: get_session_tensor(self, self.dtype))
        return await current_session().run(tensor, {holder: self.handle})

    async def delete(self) -> None:
        """Delete the tensor, in the default session. NotFoundError if it was deleted before."""
        holder, deleter = self._built(("delete",), lambda: delete_session_tensor(self))
        await current_session().run(deleter, {holder: self.handle})

    def _built(self, what: tuple[Any, ...], build: Callable[[], tuple[Tensor, Any]]) -> tuple[Tensor, Any]:
        """Return operations in the graph of the default session, built once for each device."""
        graph = current_session().graph
        key = (*what, self.handle.rpartition(";")[2])
        known = _built.setdefault(graph, {})
        if key not in known:
            with graph.as_default(), graph.control_dependencies(None):
                known[key] = build()
        return known[key]

    def get_raw_handle(self) -> str:
        """Return the text of the handle."""
        return self.handle

    def __str__(self) -> str:
        return self.handle

    def __repr__(self) -> str:
        return f"<af.TensorHandle {self.handle!r}>"


class SessionHandle:
    """An operation that keeps a tensor in the session. Fetching it returns the TensorHandle.

    Attributes:
        tensor: the text of the handle, a tensor.
        dtype: the dtype of the kept tensor.
    """

    def __init__(self, tensor: Tensor, dtype: DType) -> None:
        self.tensor: Final = tensor
        self.dtype: Final = dtype

    @property
    def op(self) -> Operation:
        """The operation that keeps the tensor."""
        return self.tensor.op

    def __repr__(self) -> str:
        return f"<af.SessionHandle of {self.op.inputs[0]!r}>"


def _tensors(handle: SessionHandle) -> Sequence[Tensor]:
    return [handle.tensor]


def _joined(handle: SessionHandle, values: Sequence[Array]) -> TensorHandle:
    return TensorHandle(values[0].decode(), handle.dtype)


def _split(handle: SessionHandle, value: Any) -> Sequence[Array]:
    return [np.array(str(value), object)]


COMPOSITES[SessionHandle] = Composite(_tensors, _joined, _split)


def get_session_handle(data: TensorLike, name: str | None = None) -> SessionHandle:
    """Return an operation that keeps a tensor in the session. Fetching it returns the handle of the tensor.

    The tensor stays on its task until it is deleted or the session ends, so a later run can use it without a way
    through the client. A run that fails keeps none.

    Args:
        data: the tensor.
        name: the name of the operation.

    Examples:
        >>> handle = await session.run(af.get_session_handle(af.constant([1, 2]) + 1))
        >>> holder, tensor = af.get_session_tensor(handle, af.int32)
        >>> await session.run(tensor * 10, {holder: handle.handle})
        array([20, 30], dtype=int32)
    """
    with same_graph(data).as_default() as graph:
        tensor = convert_to_tensor(data)
        with graph.colocate_with(tensor):
            return SessionHandle(kernels.get_session_handle(tensor, name=name), tensor.dtype)


def get_session_tensor(
    handle: TensorHandle | str | bytes, dtype: DTypeLike, name: str | None = None
) -> tuple[Tensor, Tensor]:
    """Return a placeholder for a handle, and the tensor that the session has kept under the fed handle.

    A run raises NotFoundError if the session has none, InvalidArgumentError if it has another dtype.

    Args:
        handle: a handle of that dtype, from which only the device of the tensor is taken.
        dtype: the dtype of the tensor.
        name: the name of the operation.

    Examples:
        >>> handle = await session.run(af.get_session_handle(af.constant(7)))
        >>> holder, tensor = af.get_session_tensor(handle, af.int32)
        >>> await session.run(tensor, {holder: handle.handle})
        np.int32(7)
    """
    with _at(handle):
        holder = placeholder(dtypes.string, [])
        return holder, kernels.get_session_tensor(holder, as_dtype(dtype), name=name)


def delete_session_tensor(handle: TensorHandle | str | bytes, name: str | None = None) -> tuple[Tensor, Operation]:
    """Return a placeholder for a handle, and an operation that deletes the tensor of the fed handle.

    A run raises NotFoundError if the session has none.

    Args:
        handle: a handle, from which only the device of the tensor is taken.
        name: the name of the operation.

    Examples:
        >>> handle = await session.run(af.get_session_handle(af.constant(7)))
        >>> holder, deleter = af.delete_session_tensor(handle)
        >>> await session.run(deleter, {holder: handle.handle})
    """
    with _at(handle):
        holder = placeholder(dtypes.string, [])
        return holder, kernels.delete_session_tensor(holder, name=name)


def _at(handle: TensorHandle | str | bytes) -> contextlib.AbstractContextManager[None]:
    """Build on the device in the handle. ValueError if it is none."""
    if not isinstance(handle, (TensorHandle, str, bytes)):
        raise TypeError(f"a handle is what a run of af.get_session_handle returns, not {safe_repr(handle)}")
    text = handle.decode(errors="replace") if isinstance(handle, bytes) else str(handle)
    dtype, first, rest = text.partition(";")
    number, second, device = rest.partition(";")
    if not dtype or not first or not second or not number.isdecimal():
        raise ValueError(f"{text[:200]!r} is no handle of a session's tensor")
    return get_default_graph().device(DeviceSpec.from_string(device))
