"""Handles to objects of a container, which are found by kind and name, or made; and handles to queues.

A queue's handle carries the dtypes and shapes of the components of an element. All handles with the same container and
name refer to the same `aioflow.queues.Queue`.
"""

import functools
import random
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Protocol, Self, TypeVar

from aioflow import errors
from aioflow.graph.kernel import NodeView
from aioflow.graph.op import Ints, op
from aioflow.graph.operation import Attrs, Operation, Tensor
from aioflow.kernels import known
from aioflow.kernels.context import Context
from aioflow.queues import Queue
from aioflow.resources.containers import Resources
from aioflow.tensors import dtypes
from aioflow.tensors.dtypes import SCALAR, Array, DeviceKind, DType, ResourceSpec, Spec, TensorShape, as_dtype
from aioflow.waiting.element_spec import Elements
from aioflow.waiting.stores import ByPriority, Fifo, Shuffled


class Live(Protocol):
    """The object that a handle refers to."""

    @property
    def signature(self) -> Any:
        """The attributes of the handle that it was made for."""

    def release(self) -> None:
        """The container was reset or its session closed."""


L = TypeVar("L", bound=Live)
_PLACE = ("container", "shared_name")


def opened(ctx: Context, node: NodeView, kind: type[L], make: Callable[[str], L]) -> L:
    """The object of a handle, made at first use. InvalidArgumentError if it exists with other attributes."""
    attrs = node.attrs
    name = attrs["shared_name"] or node.name
    live = ctx.resources.container(attrs["container"]).lookup_or_create(kind, name, lambda: make(name))
    if live.signature is not attrs:
        different = [
            f"{key}={_plain(value)}, not {_plain(attrs[key])}"
            for key, value in live.signature.items()
            if key not in _PLACE and value != attrs[key]
        ]
        if different:
            raise errors.InvalidArgumentError(f"{kind.__name__} {name!r} is shared with {'; '.join(different)}")
    return live


def _plain(value: Any) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(map(_plain, value))})"
    return value.name if isinstance(value, DType) else str(value)


class LiveSpec(ResourceSpec):
    """A handle to one kind of live object, which holds things of the Specs `items`."""

    __slots__ = ()
    kind: ClassVar[str] = "a live object"

    @classmethod
    def check(cls, spec: Spec, count: int | None = None) -> Self:
        """`spec` as such a handle. TypeError if it is not one."""
        if not isinstance(spec, cls):
            raise TypeError(f"a handle to {cls.kind} is needed, not {spec}")
        return spec


def components(types: Sequence[DType], shapes: Sequence[TensorShape]) -> tuple[Spec, ...]:
    """The Specs of the components of an element; without shapes they may have any."""
    if not types:
        raise ValueError("an element has at least one component, and no dtypes are given")
    if shapes and len(shapes) != len(types):
        raise ValueError(f"{len(shapes)} shapes were given for {len(types)} components")
    given = [TensorShape(shape) for shape in shapes] or [TensorShape(None)] * len(types)
    specs = tuple([Spec(as_dtype(dtype), shape) for dtype, shape in zip(types, given, strict=True)])
    if any(spec.dtype is dtypes.resource for spec in specs):
        raise TypeError("components are tensors, not resources")
    return specs


def check_component(spec: Spec, item: Spec, what: str) -> None:
    """TypeError or ValueError if a tensor like `spec` cannot be a component like `item`."""
    if spec.dtype is not item.dtype:
        raise TypeError(f"{what} is {spec.dtype.name}, and must be {item.dtype.name}")
    if not spec.shape.is_compatible_with(item.shape):
        raise ValueError(f"{what} must have shape {item.shape}, not {spec.shape}")


def again(item: Spec) -> Spec:
    """The Spec of a further element like `item`: a fresh Spec, since open sizes may differ between elements."""
    return item if item.shape.is_fully_defined() else Spec(item.dtype, TensorShape(item.shape.sizes))


CPU, GPU = DeviceKind.CPU, DeviceKind.GPU
_WORD = (1 << 64) - 1


class QueueSpec(ResourceSpec):
    """A handle to a queue: `items` are the components of an element, `padded` whether batches are filled up."""

    __slots__ = ("padded",)

    def __init__(self, items: tuple[Spec, ...], padded: bool = False) -> None:
        super().__init__(items)
        self.padded: bool = padded

    @classmethod
    def check(cls, spec: Spec, count: int | None = None) -> "QueueSpec":
        """`spec` as a handle to a queue. TypeError if it is not a queue handle."""
        if not isinstance(spec, cls):
            raise TypeError(f"a handle to a queue is needed, not {spec}")
        return spec

    def batched(self, count: int | None) -> tuple[Spec, ...]:
        """So many elements, component by component. ValueError if a batch of them cannot be made."""
        for item in self.items:
            if not (self.padded and item.rank is not None) and not item.shape.is_fully_defined():
                raise ValueError(
                    f"several elements are taken at once only of a queue that was given the shapes of its components; "
                    f"one is {item}. Give shapes=, or use a PaddingFIFOQueue for sizes that differ"
                )
        return tuple([Spec(item.dtype, TensorShape((count, *item.sizes))) for item in self.items])  # type: ignore[misc]


# Handles


def _components(types: Sequence[DType], shapes: Sequence[TensorShape]) -> tuple[Spec, ...]:
    """The Specs of the components; without shapes they may have any."""
    if not types:
        raise ValueError("an element of a queue has at least one component; component_types is empty")
    if shapes and len(shapes) != len(types):
        raise ValueError(f"{len(shapes)} shapes were given for {len(types)} components")
    known = shapes or [TensorShape(None)] * len(types)
    specs = [Spec(as_dtype(dtype), TensorShape(shape)) for dtype, shape in zip(types, known, strict=True)]
    if any(spec.dtype is dtypes.resource for spec in specs):
        raise TypeError("a queue holds tensors, not resources")
    return tuple(specs)


def _check_capacity(capacity: int, capacity_bytes: int | None) -> None:
    if not isinstance(capacity, int) or isinstance(capacity, bool):
        raise TypeError(f"capacity is a number of elements, not {capacity!r}")
    if capacity_bytes is not None and (not isinstance(capacity_bytes, int) or capacity_bytes < 1):
        raise ValueError(f"capacity_bytes is a positive number of bytes, not {capacity_bytes!r}")


@op(stateful=True, observes=True, handle=True)
def fifo_queue(
    component_types: Sequence[DType],
    shapes: Sequence[TensorShape] = (),
    capacity: int = -1,
    container: str = "",
    shared_name: str = "",
    capacity_bytes: int | None = None,
) -> Spec:
    """A handle to a queue whose elements come out in the order in which they went in."""
    _check_capacity(capacity, capacity_bytes)
    return QueueSpec(_components(component_types, shapes))


@op(stateful=True, observes=True, handle=True)
def padding_fifo_queue(
    component_types: Sequence[DType],
    shapes: Sequence[TensorShape] = (),
    capacity: int = -1,
    container: str = "",
    shared_name: str = "",
    capacity_bytes: int | None = None,
) -> Spec:
    """The same; elements of different sizes make a batch, filled up with zeros or empty text to the largest."""
    _check_capacity(capacity, capacity_bytes)
    items = _components(component_types, shapes)
    if any(item.rank is None for item in items):
        raise ValueError("a padding queue is given the rank of each component: shapes with None for the open sizes")
    return QueueSpec(items, padded=True)


@op(stateful=True, observes=True, handle=True)
def random_shuffle_queue(
    component_types: Sequence[DType],
    shapes: Sequence[TensorShape] = (),
    capacity: int = -1,
    min_after_dequeue: int = 0,
    seed: int = 0,
    seed2: int = 0,
    container: str = "",
    shared_name: str = "",
    capacity_bytes: int | None = None,
) -> Spec:
    """A handle to a queue whose elements come out in random order; seeds 0 and 0 give another one each time.

    While it is open `min_after_dequeue` elements stay in it.
    """
    _check_capacity(capacity, capacity_bytes)
    if not isinstance(min_after_dequeue, int) or min_after_dequeue < 0:
        raise ValueError(f"min_after_dequeue is a number of elements, not {min_after_dequeue!r}")
    if 0 <= capacity <= min_after_dequeue:
        raise ValueError(f"min_after_dequeue={min_after_dequeue} must be less than the capacity, {capacity}")
    return QueueSpec(_components(component_types, shapes))


@op(stateful=True, observes=True, handle=True)
def priority_queue(
    component_types: Sequence[DType] = (),
    shapes: Sequence[TensorShape] = (),
    capacity: int = -1,
    container: str = "",
    shared_name: str = "",
    capacity_bytes: int | None = None,
) -> Spec:
    """A handle to a queue whose elements come out by a priority, the least first, those of equal priority in order.

    The priority, an int64, is the first component of an element, before those that are given.
    """
    _check_capacity(capacity, capacity_bytes)
    items = _components(component_types, shapes) if component_types else ()
    return QueueSpec((Spec(dtypes.int64, SCALAR), *items))


def open_queue(resources: Resources, node: NodeView | Operation, kind: str) -> Queue:
    """The queue of a handle, made at first use. InvalidArgumentError if it exists with other attributes."""
    attrs = node.attrs
    name = attrs["shared_name"] or node.name
    signature = _signature(kind, attrs)
    container = resources.container(attrs["container"])
    queue = container.lookup_or_create(Queue, name, functools.partial(_make, kind, name, attrs, signature))
    different = [
        f"{key}={_plain_queue(queue.signature.get(key))}, not {_plain_queue(value)}"
        for key, value in signature.items()
        if queue.signature.get(key) != value and not (key == "seeds" and value == (0, 0))
    ]
    if different:
        raise errors.InvalidArgumentError(f"queue {name!r} is shared with {'; '.join(different)}")
    return queue


def live_queue(resources: Resources, handle: Tensor) -> Queue:
    """The queue of a handle, made at first use. TypeError if the operation that made the handle is unknown."""
    QueueSpec.check(handle.spec)
    if handle.op.type not in _KINDS:
        raise TypeError(f"{handle!r} is chosen in a run: ask for one of the queues that it chooses from")
    return open_queue(resources, handle.op, handle.op.type)


def _signature(kind: str, attrs: Attrs) -> dict[str, Any]:
    """All that handles to one queue must agree on."""
    found = {
        "kind": kind,
        "component_types": tuple([as_dtype(dtype) for dtype in attrs["component_types"]]),
        "shapes": tuple([TensorShape(shape).sizes for shape in attrs["shapes"]]),
        "capacity": max(-1, attrs["capacity"]),
        "capacity_bytes": attrs["capacity_bytes"],
    }
    if kind == "random_shuffle_queue":
        found |= {"min_after_dequeue": attrs["min_after_dequeue"], "seeds": (attrs["seed"], attrs["seed2"])}
    return found


def _plain_queue(value: Any) -> str:
    if isinstance(value, tuple) and all(isinstance(item, DType) for item in value):
        return f"({', '.join(item.name for item in value)})"
    return str(value)


def _make(kind: str, name: str, attrs: Attrs, signature: dict[str, Any]) -> Queue:
    spec = _KINDS[kind].infer((), attrs)[0]
    assert isinstance(spec, QueueSpec)
    return Queue(
        name,
        _store(kind, attrs),
        attrs["capacity"],
        attrs.get("min_after_dequeue", 0),
        attrs["capacity_bytes"],
        Elements(spec.items, spec.padded),
        signature,
    )


def _store(kind: str, attrs: Attrs) -> Any:
    if kind != "random_shuffle_queue":
        return ByPriority() if kind == "priority_queue" else Fifo()
    seed, seed2 = attrs["seed"], attrs["seed2"]
    return Shuffled(random.Random((seed & _WORD) << 64 | seed2 & _WORD if seed or seed2 else None))


_KINDS = {made.name: made for made in (fifo_queue, padding_fifo_queue, random_shuffle_queue, priority_queue)}


def _handle_kernel(kind: str) -> None:
    @_KINDS[kind].kernel(CPU)
    def _(ctx: Context, *, node: NodeView) -> Queue:
        return open_queue(ctx.resources, node, kind)


for _kind in _KINDS:
    _handle_kernel(_kind)


@op(stateful=True, observes=True)
def queue_from_list(index: Ints, handles: Sequence[Spec]) -> Spec:
    """One of these handles, all of queues whose elements have the same dtypes."""
    known.scalar(index, "index")
    specs = [QueueSpec.check(handle) for handle in handles]
    if not specs:
        raise ValueError("it needs at least one queue")
    types = [[item.dtype for item in spec.items] for spec in specs]
    if any(each != types[0] for each in types):
        raise TypeError(f"queues to choose from have elements of the same dtypes, not {', '.join(map(str, specs))}")
    items = []
    for components in zip(*[spec.items for spec in specs], strict=True):
        shape = components[0].shape
        for other in components[1:]:
            shape = shape.most_specific_compatible_shape(other.shape)
        items.append(Spec(components[0].dtype, TensorShape(shape)))
    return QueueSpec(tuple(items), all(spec.padded for spec in specs))


@queue_from_list.kernel(CPU)
def _(ctx: Context, index: Array, handles: Sequence[Queue]) -> Queue:
    if not 0 <= index < len(handles):
        raise errors.InvalidArgumentError(f"index {int(index)} is out of range for {len(handles)} queues")
    return handles[int(index)]


for _op in (*_KINDS.values(), queue_from_list):
    _op.no_gradient("a handle has no history")
