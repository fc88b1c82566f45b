"""Handles of queues in a graph. `session.queue(handle)` returns the live object."""

import zlib
from collections.abc import Callable, Sequence
from typing import Any, Final

from aioflow.graph.building import transactional, with_text
from aioflow.graph.convert import NumberLike, convert_to_tensor
from aioflow.graph.operation import Operation, Tensor, describe_line
from aioflow.kernels.math.random import get_seed
from aioflow.kernels.state import queues as ops
from aioflow.kernels.state import resource_handles as handles
from aioflow.kernels.state.resource_handles import QueueSpec
from aioflow.library.resource_handle import Handle, dtypes_of, outside
from aioflow.tensors import dtypes
from aioflow.tensors.dtypes import DType, TensorShape, as_shape


class QueueBase(Handle):
    """A queue in a graph: operations put elements into it and take them from it, and wait if necessary.

    An element has one or more components, each with its dtype. A wait uses no thread, waiters are served in order, and
    a cancelled run leaves nothing behind. Not created directly: see `FIFOQueue`, `RandomShuffleQueue`,
    `PaddingFIFOQueue`, `PriorityQueue`.

    Args:
        dtypes: the dtypes of the components.
        shapes: their shapes, None for any.
        names: names of the components: then elements are dicts.
        queue_ref: the handle, a tensor.

    Examples:
        >>> queue = af.FIFOQueue(10, [af.int32], shapes=[[]])
        >>> await session.run(queue.enqueue(1)), await session.run(queue.size())
        (None, np.int32(1))
    """

    def __init__(self, dtypes: Any, shapes: Any, names: Any, queue_ref: Tensor) -> None:
        super().__init__(queue_ref)
        self._dtypes: Final = dtypes_of(dtypes)
        count = len(self._dtypes)
        self._shapes: Final = _shapes(shapes, count) if shapes else [TensorShape(None)] * count
        self._names: Final = _names(names, count)
        QueueSpec.check(queue_ref.spec)

    @staticmethod
    @transactional
    def from_list(index: NumberLike, queues: Sequence["QueueBase"]) -> "QueueBase":
        """Return one of these queues, by an index that the run knows. TypeError, ValueError if they are not alike."""
        if not queues or not all(isinstance(queue, QueueBase) for queue in queues):
            raise TypeError("a list of queues is expected")
        first = queues[0]
        if any(queue.dtypes != first.dtypes for queue in queues):
            raise TypeError("queues to choose from hold elements of the same dtypes")
        if any(queue.names != first.names for queue in queues):
            raise ValueError("queues to choose from have the same names of components")
        chosen = handles.queue_from_list(index, [queue.queue_ref for queue in queues])
        return QueueBase(first.dtypes, [item.shape for item in _items(chosen)], first.names, chosen)

    # Attributes

    @property
    def queue_ref(self) -> Tensor:
        """The handle, a tensor."""
        return self._ref

    @property
    def dtypes(self) -> list[DType]:
        """The dtypes of the components."""
        return list(self._dtypes)

    @property
    def shapes(self) -> list[TensorShape]:
        """The known part of the components' shapes."""
        return list(self._shapes)

    @property
    def names(self) -> list[str] | None:
        """The names of the components, if they have some."""
        return None if self._names is None else list(self._names)

    # Enqueue

    def enqueue(self, vals: Any, name: str | None = None) -> Operation:
        """Return an operation that puts one element into the queue, as soon as there is room.

        It fails with CancelledError if the queue is closed.

        Args:
            vals: the components in a list or tuple; the tensor itself if there is one; a dict if they have names.
            name: the name of the operation.

        Raises:
            TypeError, ValueError: there are more or fewer components, or one cannot have its dtype or shape.
        """
        return self._build("enqueue", name, lambda name: ops.queue_enqueue(self._ref, self._tensors(vals), name))

    def enqueue_many(self, vals: Any, name: str | None = None, atomic: bool = False) -> Operation:
        """Return an operation that puts elements into the queue: the rows of the components.

        It puts each one as soon as there is room, so some may be in the queue when the run is cancelled. If `atomic`,
        it puts all at once.
        """
        return self._build(
            "enqueue_many",
            name,
            lambda name: ops.queue_enqueue_many(self._ref, self._tensors(vals), atomic, name),
        )

    def give_back(self, vals: Any, name: str | None = None) -> Operation:
        """Return an operation that puts an element that was taken back into the queue, without waiting.

        It succeeds even if the queue is full or closed, since only its taker may be able to make room, or to put the
        last element. The element comes out after the present ones, or as the queue chooses. It fails only if the queue
        no longer exists.
        """
        return self._build(
            "give_back", name, lambda name: ops.queue_give_back(self._ref, self._tensors(vals), False, name)
        )

    def give_back_many(self, vals: Any, name: str | None = None) -> Operation:
        """Do the same for several elements: the rows of the components."""
        return self._build(
            "give_back_many", name, lambda name: ops.queue_give_back(self._ref, self._tensors(vals), True, name)
        )

    def _tensors(self, vals: Any) -> list[Tensor]:
        given = self._order_values(vals)
        if len(given) != len(self._dtypes):
            mend = ": give the components in a list" if len(self._dtypes) > 1 or isinstance(vals, (list, tuple)) else ""
            raise ValueError(f"{len(given)} components were given, an element has {len(self._dtypes)}{mend}")
        return [self._tensor(place, value) for place, value in enumerate(given)]

    def _tensor(self, place: int, value: Any) -> Tensor:
        dtype = self._dtypes[place]
        try:
            return convert_to_tensor(value, dtype, name=f"component_{place}")
        except (TypeError, ValueError) as error:
            raise with_text(error, f"component {place} is {dtype.name}: {error}") from error

    def _order_values(self, vals: Any) -> Sequence[Any]:
        if isinstance(vals, dict):
            if self._names is None:
                raise ValueError("the components of this queue have no names: give a list, not a dict")
            if vals.keys() != set(self._names):
                raise ValueError(f"the components are {', '.join(self._names)}, not {', '.join(map(str, vals))}")
            return [vals[name] for name in self._names]
        if self._names is not None:
            raise ValueError(f"the components have names: give a dict of {', '.join(self._names)}")
        return vals if isinstance(vals, (list, tuple)) else [vals]

    # Dequeue

    def dequeue(self, name: str | None = None) -> Any:
        """Take the next element off the queue as soon as there is one, and return its components.

        A tensor if there is one component, a dict if they have names, else a list. The run fails with OutOfRangeError
        if the queue is closed and empty.
        """
        return self._build_take("dequeue", name, lambda name: ops.queue_dequeue(self._ref, name))

    def dequeue_many(self, n: NumberLike, name: str | None = None) -> Any:
        """Take the next `n` elements, stacked component by component. The run waits until there are `n`.

        While it waits all of them stay in the queue. The run fails with OutOfRangeError if the queue is closed and has
        fewer. ValueError if the shapes of the components are not known.
        """
        return self._build_take("dequeue_many", name, lambda name: ops.queue_dequeue_many(self._ref, n, name))

    def dequeue_up_to(self, n: NumberLike, name: str | None = None) -> Any:
        """Do the same, except that a closed queue gives its remaining elements, if there is at least one."""
        return self._build_take("dequeue_up_to", name, lambda name: ops.queue_dequeue_up_to(self._ref, n, name))

    def _build_take(self, what: str, name: str | None, build: Callable[[str], Sequence[Tensor]]) -> Any:
        tensors = self._build(what, name, build)
        if self._names is not None:
            return dict(zip(self._names, tensors, strict=True))
        return tensors[0] if len(tensors) == 1 else list(tensors)

    # Closing and state

    def close(self, cancel_pending_enqueues: bool = False, name: str | None = None) -> Operation:
        """Return an operation that closes the queue: later enqueues fail, and its elements can still be taken.

        It waits until all pending enqueues are done or, with `cancel_pending_enqueues`, ends these with
        CancelledError. Closing twice fails with CancelledError.
        """
        return self._build("close", name, lambda name: ops.queue_close(self._ref, cancel_pending_enqueues, name))

    def is_closed(self, name: str | None = None) -> Tensor:
        """Return whether it is closed."""
        return self._build("is_closed", name, lambda name: ops.queue_is_closed(self._ref, name))

    def size(self, name: str | None = None) -> Tensor:
        """Return the number of its elements."""
        return self._build("size", name, lambda name: ops.queue_size(self._ref, name))

    def __repr__(self) -> str:
        items = ", ".join(map(str, _items(self._ref)))
        return f"<af.{type(self).__name__} {self._ref.op.name!r} of {items}>"

    def _repr_html_(self) -> str:
        from aioflow.notebook.state import queue_html

        return queue_html(self, describe_line(self._ref.op))


def _items(handle: Tensor) -> tuple[dtypes.Spec, ...]:
    return QueueSpec.check(handle.spec).items


class FIFOQueue(QueueBase):
    """A queue whose elements leave in the order of their arrival.

    Args:
        capacity: the most elements; negative for any number.
        dtypes: the dtype of each component; one dtype for one component.
        shapes: the shape of each component, fully known; without shapes any is allowed, and batches are not possible.
        names: names of the components: then elements are dicts.
        shared_name: queues of this name are one queue, in sessions that share their container.
        name: the name of the queue.
        capacity_bytes: the most bytes of elements; one element always fits into an empty queue.

    Raises:
        TypeError, ValueError: the arguments contradict each other.

    Examples:
        >>> queue = af.FIFOQueue(10, [af.int32], shapes=[[]])
        >>> await session.run(queue.enqueue_many([[1, 2, 3]]))
        >>> await session.run(queue.dequeue_many(2))
        array([1, 2], dtype=int32)
    """

    def __init__(
        self,
        capacity: int,
        dtypes: Any,
        shapes: Any = None,
        names: Any = None,
        shared_name: str | None = None,
        name: str = "fifo_queue",
        *,
        capacity_bytes: int | None = None,
    ) -> None:
        types = dtypes_of(dtypes)
        known = _fully_known(shapes, len(types))
        handle = _handle(handles.fifo_queue, name, shared_name, types, known, capacity, capacity_bytes=capacity_bytes)
        super().__init__(types, known, names, handle)


class PaddingFIFOQueue(QueueBase):
    """A FIFOQueue whose elements may differ in size: batches are padded with zeros, or empty strings, to the largest.

    Args:
        capacity: the most elements; negative for any number.
        dtypes: the dtype of each component; one dtype for one component.
        shapes: a list of the shape of each component, with None for the sizes that differ: `[[None, 3], []]`.
        names: names of the components: then elements are dicts.
        shared_name: queues of this name are one queue, in sessions that share their container.
        name: the name of the queue.
        capacity_bytes: the most bytes of elements; one element always fits into an empty queue.

    Examples:
        >>> queue = af.PaddingFIFOQueue(10, [af.int32], shapes=[[None]])
        >>> await session.run(queue.enqueue([[1, 2]]))
        >>> await session.run(queue.enqueue([[3]]))
        >>> await session.run(queue.dequeue_many(2))
        array([[1, 2],
               [3, 0]], dtype=int32)
    """

    def __init__(
        self,
        capacity: int,
        dtypes: Any,
        shapes: Any,
        names: Any = None,
        shared_name: str | None = None,
        name: str = "padding_fifo_queue",
        *,
        capacity_bytes: int | None = None,
    ) -> None:
        types = dtypes_of(dtypes)
        known = _check_ranks(shapes, len(types))
        handle = _handle(
            handles.padding_fifo_queue, name, shared_name, types, known, capacity, capacity_bytes=capacity_bytes
        )
        super().__init__(types, known, names, handle)


class RandomShuffleQueue(QueueBase):
    """A queue whose elements leave in random order, the same in each session if it has a seed.

    Args:
        capacity: the most elements; negative for any number.
        min_after_dequeue: number of elements that stay in an open queue, so that the order is well mixed.
        dtypes: the dtype of each component; one dtype for one component.
        shapes: the shape of each component, fully known; without shapes any is allowed, and batches are not possible.
        names: names of the components: then elements are dicts.
        seed: the seed; see `af.set_random_seed`.
        shared_name: queues of this name are one queue, in sessions that share their container.
        name: the name of the queue.
        capacity_bytes: the most bytes of elements; one element always fits into an empty queue.

    Examples:
        >>> queue = af.RandomShuffleQueue(10, min_after_dequeue=0, dtypes=[af.int32], shapes=[[]])
        >>> await session.run(queue.enqueue_many([[1, 2, 3]]))
        >>> sorted(await session.run(queue.dequeue_many(3)))
        [np.int32(1), np.int32(2), np.int32(3)]
    """

    def __init__(
        self,
        capacity: int,
        min_after_dequeue: int,
        dtypes: Any,
        shapes: Any = None,
        names: Any = None,
        seed: int | None = None,
        shared_name: str | None = None,
        name: str = "random_shuffle_queue",
        *,
        capacity_bytes: int | None = None,
    ) -> None:
        types = dtypes_of(dtypes)
        known = _fully_known(shapes, len(types))
        seeds = _seeds(seed, shared_name)
        handle = _handle(
            handles.random_shuffle_queue,
            name,
            shared_name,
            types,
            known,
            capacity,
            min_after_dequeue,
            *seeds,
            capacity_bytes=capacity_bytes,
        )
        super().__init__(types, known, names, handle)


class PriorityQueue(QueueBase):
    """A queue whose elements leave by priority, the lowest first, those of equal priority in order.

    The priority is the first component of an element, an int64, before those in `types`.

    Args:
        capacity: the most elements; negative for any number.
        types: the dtype of each other component.
        shapes: the shape of each other component, fully known.
        names: names of all components, beginning with the priority: then elements are dicts.
        shared_name: queues of this name are one queue, in sessions that share their container.
        name: the name of the queue.
        capacity_bytes: the most bytes of elements; one element always fits into an empty queue.

    Examples:
        >>> queue = af.PriorityQueue(10, [af.string], shapes=[[]])
        >>> await session.run(queue.enqueue_many([[5, 1], ["later", "first"]]))
        >>> await session.run(queue.dequeue())
        [np.int64(1), b'first']
    """

    def __init__(
        self,
        capacity: int,
        types: Any,
        shapes: Any = None,
        names: Any = None,
        shared_name: str | None = None,
        name: str = "priority_queue",
        *,
        capacity_bytes: int | None = None,
    ) -> None:
        others = dtypes_of(types)
        known = _fully_known(shapes, len(others))
        handle = _handle(
            handles.priority_queue, name, shared_name, others, known, capacity, capacity_bytes=capacity_bytes
        )
        super().__init__([dtypes.int64, *others], [item.shape for item in _items(handle)], names, handle)


# Construction


def _handle(make: Callable[..., Tensor], name: str, shared_name: str | None, *attrs: Any, **options: Any) -> Tensor:
    """Return the handle, in the graph outside of all branches and loops, since a queue outlives them."""
    with outside() as container:
        return make(*attrs, container=container, shared_name=shared_name or "", name=name, **options)


def _shapes(given: Any, count: int) -> list[TensorShape]:
    """Return the shape of each component. ValueError for another number of shapes, TypeError if they are none."""
    if isinstance(given, TensorShape) or not isinstance(given, (list, tuple)):
        shapes = [given]
    else:
        alone = count == 1 and not any(isinstance(item, (list, tuple, TensorShape)) for item in given)
        shapes = [given] if alone else list(given)
    if len(shapes) != count:
        raise ValueError(f"{len(shapes)} shapes were given for {count} components: give a list with one of each")
    return [as_shape(shape) for shape in shapes]


def _check_ranks(given: Any, count: int) -> list[TensorShape]:
    """Do the same for a list of shapes. ValueError for a single shape, since `[None]` could be either."""
    several = isinstance(given, (list, tuple)) and given
    if not several or any(shape is None or isinstance(shape, int) for shape in given):
        raise ValueError(f"shapes is a list with one shape for each component, as [[None, 3]], not {given!r}")
    shapes = _shapes(given, count)
    for shape in shapes:
        if shape.ndims is None:
            raise ValueError(f"the rank of each component must be known, and one has shape {shape}")
    return shapes


def _fully_known(given: Any, count: int) -> list[TensorShape]:
    """Do the same for fully known shapes; empty without shapes."""
    shapes = [] if given is None else _shapes(given, count)
    for shape in shapes:
        if not shape.is_fully_defined():
            raise ValueError(f"the shapes of components must be fully known, not {shape}: use a PaddingFIFOQueue")
    return shapes


def _names(given: Any, count: int) -> list[str] | None:
    if not given:
        return None
    names = list(given) if isinstance(given, (list, tuple)) else [given]
    if len(names) != count or len(set(names)) != count or not all(isinstance(name, str) for name in names):
        raise ValueError(f"{count} different names of components are needed, not {names}")
    return names


def _seeds(seed: int | None, shared_name: str | None) -> tuple[int, int]:
    """Return the seeds of a queue: zeros for a new order each time. Seeds of shared queues ignore the graph."""
    graph_seed, own = get_seed(seed)
    if graph_seed is None or own is None:
        return 0, 0
    if seed is None and shared_name:
        return graph_seed, zlib.crc32(f"{graph_seed}{shared_name}".encode()) & 0x7FFF_FFFF
    return graph_seed, own
