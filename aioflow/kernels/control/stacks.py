"""Stacks: last in, first out, of any length. A stack is made by its operation in each run and ends with it.

Edges order pushes and pops: a push returns the pushed value, and a control edge makes a pop run after it.
"""

import threading
from typing import Any, Final

from aioflow import errors
from aioflow.graph.op import Ints, op
from aioflow.kernels import known
from aioflow.kernels.context import Context
from aioflow.kernels.control.transfer import put_away, taken_back
from aioflow.kernels.families import CPU, GPU
from aioflow.tensors import dtypes
from aioflow.tensors.dtypes import Array, DType, Namespace, ResourceSpec, Spec


class StackSpec(ResourceSpec):
    """A handle to a stack of tensors of one dtype and any shapes."""

    __slots__ = ()

    @classmethod
    def check(cls, spec: Spec, count: int | None = 1) -> "StackSpec":
        """`spec` as a handle to a stack. TypeError if it is not a stack handle."""
        if not isinstance(spec, cls):
            raise TypeError(f"a handle to a stack is needed, not {spec}")
        return spec

    @property
    def dtype_held(self) -> DType:
        """The dtype of its elements."""
        return self.items[0].dtype


class Stack:
    """A stack with at most `limit` elements, any number if that is negative. Safe to use from any thread."""

    def __init__(self, name: str, limit: int) -> None:
        self.name: Final = name
        self._limit: Final = limit
        self._items: list[Any] = []
        self._lock = threading.Lock()
        self._closed = False

    def push(self, item: Any) -> None:
        """Put `item` on top. InvalidArgumentError if it is full or closed."""
        with self._lock:
            self._check_open()
            if 0 <= self._limit <= len(self._items):
                raise errors.InvalidArgumentError(f"stack {self.name!r} is full: it holds {self._limit} elements")
            self._items.append(item)

    def pop(self) -> Any:
        """Remove and return the top element. InvalidArgumentError if the stack is empty or closed."""
        with self._lock:
            self._check_open()
            if not self._items:
                raise errors.InvalidArgumentError(f"stack {self.name!r} is empty: nothing can be popped")
            return self._items.pop()

    def close(self) -> None:
        """Release all elements; later calls fail."""
        with self._lock:
            self._closed = True
            self._items.clear()

    def _check_open(self) -> None:
        if self._closed:
            raise errors.InvalidArgumentError(f"stack {self.name!r} was closed")

    def __repr__(self) -> str:
        return f"<Stack {self.name!r} of {len(self._items)}{', closed' if self._closed else ''}>"


@op(stateful=True)
def stack_v2(max_size: Ints, elem_type: DType, stack_name: str = "") -> Spec:
    """A handle to a new, empty stack of at most `max_size` elements; of any number if that is negative.

    Examples:
        >>> stack = af.stack_v2(10, af.int32)
        >>> with af.control_dependencies([af.stack_push_v2(stack, 7)]):
        ...     value = af.stack_pop_v2(stack, af.int32)
        >>> await session.run(value)
        np.int32(7)
    """
    known.scalar(max_size, "max_size")
    if elem_type is dtypes.resource:
        raise TypeError("a stack holds tensors, not resources")
    return StackSpec((Spec(elem_type),))


@stack_v2.kernel(CPU, GPU, binds=True)
def _(xp: Namespace, node: Any) -> Any:
    name = node.attrs["stack_name"] or node.name
    return lambda max_size: Stack(name, int(max_size))


@op(stateful=True)
def stack_push_v2(handle: Spec, elem: Spec, swap_memory: bool = False) -> Spec:
    """`elem`, once it is on top of the stack.

    With `swap_memory` a large one is kept in host memory if the device's own is nearly full. InvalidArgumentError if
    the stack is full or closed.

    Examples:
        >>> stack = af.stack_v2(10, af.int32)
        >>> await session.run(af.stack_push_v2(stack, 7))
        np.int32(7)
    """
    held = StackSpec.check(handle).dtype_held
    if elem.dtype is not held:
        raise TypeError(f"the stack holds {held.name}, and the element is {elem.dtype.name}; use af.cast")
    return elem


@stack_push_v2.kernel(CPU, GPU)
def _(ctx: Context, stack: Stack, elem: Array, *, swap_memory: bool) -> Array:
    stack.push(put_away(ctx.device, elem) if swap_memory else elem)
    return elem


@op(stateful=True)
def stack_pop_v2(handle: Spec, elem_type: DType) -> Spec:
    """The element on top of the stack, which is taken off. InvalidArgumentError if the stack is empty or closed.

    Examples:
        >>> stack = af.stack_v2(10, af.int32)
        >>> with af.control_dependencies([af.stack_push_v2(stack, 7)]):
        ...     top = af.stack_pop_v2(stack, af.int32)
        >>> await session.run(top)
        np.int32(7)
    """
    held = StackSpec.check(handle).dtype_held
    if elem_type is not held:
        raise TypeError(f"the stack holds {held.name}, not {elem_type.name}")
    return Spec(held)


@stack_pop_v2.kernel(CPU, GPU)
def _(ctx: Context, stack: Stack) -> Array:
    return taken_back(ctx.device, stack.pop())


@op(stateful=True)
def stack_close_v2(handle: Spec) -> None:
    """The stack is empty and closed: pushing and popping fail.

    Examples:
        >>> stack = af.stack_v2(10, af.int32)
        >>> await session.run(af.stack_close_v2(stack))
    """
    StackSpec.check(handle)


@stack_close_v2.kernel(CPU, GPU)
def _(xp: Namespace, stack: Stack) -> None:
    stack.close()


for _op in (stack_v2, stack_push_v2, stack_pop_v2, stack_close_v2):
    _op.no_gradient("it changes state; gradients of loops store the values they need themselves")
