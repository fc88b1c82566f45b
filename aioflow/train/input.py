"""Producers: queues of strings, numbers or rows of tensors that a queue runner fills for `num_epochs` epochs."""

from collections.abc import Sequence
from typing import Any

from aioflow.graph.building import transactional
from aioflow.graph.convert import NumberLike, TensorLike, convert_to_tensor
from aioflow.graph.graph_keys import GraphKeys
from aioflow.graph.operation import Operation, Tensor
from aioflow.kernels.array.constants import constant, identity
from aioflow.kernels.array.gather import gather
from aioflow.kernels.array.ranges import range as range_of
from aioflow.kernels.array.shapes import shape, size
from aioflow.kernels.control.assertions import Assert
from aioflow.kernels.math.random import random_shuffle
from aioflow.kernels.state.readers import matching_files
from aioflow.library.control import control_dependencies, name_scope
from aioflow.library.queues import FIFOQueue, QueueBase
from aioflow.library.state import count_up_to
from aioflow.library.variables import Variable
from aioflow.tensors import dtypes
from aioflow.tensors.shape import ShapeLike, as_shape
from aioflow.train.queue_runner import QueueRunner, add_queue_runner


@transactional
def match_filenames_once(pattern: TensorLike, name: str | None = None) -> Variable:
    """Return a local variable with the names of the files that match when it is initialized.

    Args:
        pattern: such as `images/*.png`, or a vector of patterns.
        name: the name of the variable.

    Examples:
        >>> from pathlib import Path
        >>> _ = Path("a.txt").write_text("text")
        >>> files = af.train.match_filenames_once("*.txt")
        >>> await session.run(af.local_variables_initializer())
        >>> await session.run(files)
        array([b'a.txt'], dtype=object)
    """
    with name_scope(name, "matching_filenames", [pattern]) as scope:
        keys = [GraphKeys.LOCAL_VARIABLES]
        return Variable(matching_files(pattern), trainable=False, collections=keys, validate_shape=False, name=scope)


@transactional
def limit_epochs(tensor: TensorLike, num_epochs: int | None = None, name: str | None = None) -> Tensor:
    """Return `tensor`, which can be evaluated `num_epochs` times; later runs raise OutOfRangeError. None for no limit.

    The local variable `epochs` counts the evaluations; `af.local_variables_initializer()` initializes it.

    Examples:
        >>> x = af.train.limit_epochs(af.constant(1), num_epochs=2)
        >>> await session.run(af.local_variables_initializer())
        >>> await session.run([x]), await session.run([x])
        ([np.int32(1)], [np.int32(1)])
        >>> try:
        ...     await session.run(x)
        ... except af.errors.OutOfRangeError:
        ...     print("two epochs are over")
        two epochs are over
    """
    value = convert_to_tensor(tensor)
    if num_epochs is None:
        return value
    if isinstance(num_epochs, bool) or not isinstance(num_epochs, int) or num_epochs <= 0:
        raise ValueError(f"num_epochs must be a positive integer or None, not {num_epochs!r}")
    with name_scope(name, "limit_epochs", [value]) as scope:
        keys = [GraphKeys.LOCAL_VARIABLES]
        epochs = Variable(constant(0, dtypes.int64), name="epochs", trainable=False, collections=keys)
        with control_dependencies([count_up_to(epochs, num_epochs)]):
            return identity(value, name=scope)


@transactional
def input_producer(
    input_tensor: TensorLike,
    element_shape: ShapeLike = None,
    num_epochs: int | None = None,
    shuffle: bool = True,
    seed: int | None = None,
    capacity: int = 32,
    shared_name: str | None = None,
    summary_name: str | None = None,
    name: str | None = None,
    cancel_op: Operation | None = None,
) -> QueueBase:
    """Return a queue of the rows of `input_tensor`; the graph gets a queue runner that fills it.

    Args:
        input_tensor: a tensor of rank 1 at least.
        element_shape: the shape of a row, if the tensor does not have it.
        num_epochs: number of times that all rows are produced before the queue is closed. None for ever. A local
            variable counts them: run `af.local_variables_initializer()` first.
        shuffle: whether each epoch has another order.
        seed: seed of these orders.
        capacity: the most rows in the queue.
        shared_name: queues of this name are one queue, in sessions that share their container.
        summary_name: for compatibility.
        name: the name of the operations.
        cancel_op: closes the queue when the coordinator stops; built here by default.

    Raises:
        ValueError: the shape of a row is unknown.

    Examples:
        >>> queue = af.train.input_producer(af.constant([1, 2, 3]), num_epochs=1, shuffle=False)
        >>> await session.run(af.local_variables_initializer())
        >>> coordinator = af.train.Coordinator()
        >>> tasks = af.train.start_queue_runners(session, coordinator)
        >>> await session.run(queue.dequeue_many(3))
        array([1, 2, 3], dtype=int32)
        >>> coordinator.request_stop()
        >>> await coordinator.join(tasks)
    """
    with name_scope(name, "input_producer", [input_tensor]):
        rows = convert_to_tensor(input_tensor, name="input_tensor")
        row = rows.shape.with_rank_at_least(1)[1:].merge_with(as_shape(element_shape))
        if not row.is_fully_defined():
            raise ValueError(f"the rows of {rows!r} have shape {row}, which must be known: give element_shape")
        if shuffle:
            rows = random_shuffle(rows, seed=seed)
        rows = limit_epochs(rows, num_epochs)
        queue = FIFOQueue(capacity, [rows.dtype], [row], shared_name=shared_name, name=name or "fifo_queue")
        add_queue_runner(QueueRunner(queue, [queue.enqueue_many([rows])], cancel_op=cancel_op))
        return queue


@transactional
def string_input_producer(
    string_tensor: TensorLike,
    num_epochs: int | None = None,
    shuffle: bool = True,
    seed: int | None = None,
    capacity: int = 32,
    shared_name: str | None = None,
    name: str | None = None,
    cancel_op: Operation | None = None,
) -> QueueBase:
    """Return a queue of the strings of a vector, such as names of files: see `input_producer`.

    Raises:
        ValueError: the vector is empty.
        InvalidArgumentError: in the run: the vector is empty.

    Examples:
        >>> queue = af.train.string_input_producer(["a.txt", "b.txt"], shuffle=False)
        >>> coordinator = af.train.Coordinator()
        >>> tasks = af.train.start_queue_runners(session, coordinator)
        >>> await session.run(queue.dequeue_many(3))
        array([b'a.txt', b'b.txt', b'a.txt'], dtype=object)
        >>> coordinator.request_stop()
        >>> await coordinator.join(tasks)
    """
    complaint = "string_input_producer needs at least one string"
    if isinstance(string_tensor, (list, tuple)) and not string_tensor:
        raise ValueError(complaint)
    with name_scope(name, "input_producer", [string_tensor]) as scope:
        strings = convert_to_tensor(string_tensor, dtypes.string)
        with control_dependencies([Assert(size(strings) > 0, [complaint])]):
            checked = identity(strings)
        return input_producer(
            checked, [], num_epochs, shuffle, seed, capacity, shared_name, name=scope, cancel_op=cancel_op
        )


@transactional
def range_input_producer(
    limit: NumberLike,
    num_epochs: int | None = None,
    shuffle: bool = True,
    seed: int | None = None,
    capacity: int = 32,
    shared_name: str | None = None,
    name: str | None = None,
) -> QueueBase:
    """Return a queue of the integers from 0 to `limit` - 1: see `input_producer`.

    Examples:
        >>> queue = af.train.range_input_producer(3, shuffle=False)
        >>> async with af.train.Coordinator() as coord:
        ...     tasks = af.train.start_queue_runners(session, coord)
        ...     print([int(await session.run(queue.dequeue())) for _ in range(4)])
        ...     coord.request_stop()
        [0, 1, 2, 0]
    """
    with name_scope(name, "input_producer", [limit]) as scope:
        return input_producer(range_of(limit), [], num_epochs, shuffle, seed, capacity, shared_name, name=scope)


@transactional
def slice_input_producer(
    tensor_list: Sequence[TensorLike],
    num_epochs: int | None = None,
    shuffle: bool = True,
    seed: int | None = None,
    capacity: int = 32,
    shared_name: str | None = None,
    name: str | None = None,
) -> list[Tensor]:
    """Return the same row of each tensor, another row in each run; a queue of row numbers selects it.

    See `input_producer` for the queue. ValueError if there are no tensors, or if a tensor does not have as many rows
    as the first.

    Examples:
        >>> x, label = af.train.slice_input_producer([[[1.0], [2.0]], [10, 20]], shuffle=False)
        >>> coordinator = af.train.Coordinator()
        >>> tasks = af.train.start_queue_runners(session, coordinator)
        >>> await session.run([x, label])
        [array([1.], dtype=float32), np.int32(10)]
        >>> coordinator.request_stop()
        >>> await coordinator.join(tasks)
    """
    with name_scope(name, "input_producer", list(tensor_list)):
        tensors = [convert_to_tensor(value) for value in tensor_list]
        if not tensors:
            raise ValueError("slice_input_producer needs at least one tensor")
        counts = [tensor.shape.with_rank_at_least(1)[0] for tensor in tensors]
        if not all(count.is_compatible_with(counts[0]) for count in counts):
            raise ValueError(
                f"the tensors have {', '.join(str(count.value) for count in counts)} rows, not all as many"
            )
        limit = shape(tensors[0])[0]
        index: Any = range_input_producer(limit, num_epochs, shuffle, seed, capacity, shared_name).dequeue()
        return [gather(tensor, index) for tensor in tensors]
