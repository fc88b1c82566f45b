"""Batches of examples from queues that queue runners fill; each run takes one batch.

Each function builds a queue, a queue runner that `start_queue_runners` starts, and the tensors of a batch. When the
input has ended and too few examples for a batch are left, a run raises OutOfRangeError or gives a smaller batch.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from aioflow.graph.building import transactional
from aioflow.graph.convert import NumberLike, TensorLike, constant_value, convert_to_tensor
from aioflow.graph.operation import Operation, Tensor
from aioflow.graph.sparse_tensor import SparseTensor
from aioflow.kernels.array.constants import no_op
from aioflow.kernels.array.select import boolean_mask
from aioflow.kernels.sparse.sparse_strings import PARTS
from aioflow.library.branches import cond
from aioflow.library.control import group, name_scope
from aioflow.library.queues import FIFOQueue, PaddingFIFOQueue, QueueBase, RandomShuffleQueue
from aioflow.library.sparse import (
    convert_to_tensor_or_sparse_tensor,
    deserialize_many_sparse,
    serialize_many_sparse,
    serialize_sparse,
)
from aioflow.tensors.dtypes import BOOL
from aioflow.tensors.shape import ShapeLike, TensorShape, as_shape
from aioflow.train.queue_runner import QueueRunner, add_queue_runner

Restore = Callable[[Tensor], SparseTensor]
Tensors = Sequence[TensorLike] | dict[Any, TensorLike]
"""The components of an example, in a list or by name."""


class _Options(NamedTuple):
    """The options of the queue, named as the arguments of the public functions."""

    batch_size: NumberLike
    capacity: int
    enqueue_many: bool
    shapes: Sequence[ShapeLike] | None
    allow_smaller_final_batch: bool
    shared_name: str | None
    dynamic_pad: bool = False
    min_after_dequeue: int | None = None
    seed: int | None = None


@transactional
def batch(
    tensors: Tensors,
    batch_size: NumberLike,
    num_threads: int = 1,
    capacity: int = 32,
    enqueue_many: bool = False,
    shapes: Sequence[ShapeLike] | None = None,
    dynamic_pad: bool = False,
    allow_smaller_final_batch: bool = False,
    shared_name: str | None = None,
    name: str | None = None,
) -> Any:
    """Return batches of examples, in the order in which they are made.

    Args:
        tensors: one example: its components, sparse or not. The batch has the same form, except that a list of one
            tensor gives a tensor.
        batch_size: number of examples in a batch.
        num_threads: number of tasks that make examples; with more than one the order is undefined.
        capacity: the most examples in the queue.
        enqueue_many: whether `tensors` are several examples, stacked along the first axis.
        shapes: the shapes of the components of one example, if the tensors do not have them.
        dynamic_pad: whether sizes may be unknown and differ; a batch is padded with zeros, or empty strings, to the
            largest size. The ranks must be known.
        allow_smaller_final_batch: whether the last batch may be smaller, if too few examples remain.
        shared_name: queues of this name are one queue, in sessions that share their container.
        name: the name of the operations.

    Raises:
        ValueError: the shapes are unknown, or there are no tensors.

    Examples:
        >>> queue = af.train.range_input_producer(4, shuffle=False)
        >>> numbers = af.train.batch([queue.dequeue()], 2)
        >>> async with af.train.Coordinator() as coord:
        ...     tasks = af.train.start_queue_runners(session, coord)
        ...     print(await session.run(numbers))
        ...     coord.request_stop()
        [0 1]
    """
    return _batches("batch", **locals())


@transactional
def maybe_batch(
    tensors: Tensors,
    keep_input: TensorLike,
    batch_size: NumberLike,
    num_threads: int = 1,
    capacity: int = 32,
    enqueue_many: bool = False,
    shapes: Sequence[ShapeLike] | None = None,
    dynamic_pad: bool = False,
    allow_smaller_final_batch: bool = False,
    shared_name: str | None = None,
    name: str | None = None,
) -> Any:
    """Return batches of the examples with true `keep_input`: a scalar, or a value for each of several. See `batch`.

    Examples:
        >>> x = af.train.input_producer([1, 2, 3, 4], shuffle=False).dequeue()
        >>> batch = af.train.maybe_batch([x], af.equal(x % 2, 0), batch_size=2)
        >>> coordinator = af.train.Coordinator()
        >>> tasks = af.train.start_queue_runners(session, coordinator)
        >>> await session.run(batch)
        array([2, 4], dtype=int32)
        >>> coordinator.request_stop()
        >>> await coordinator.join(tasks)
    """
    return _batches("batch", **locals())


@transactional
def batch_join(
    tensors_list: Sequence[Tensors],
    batch_size: NumberLike,
    capacity: int = 32,
    enqueue_many: bool = False,
    shapes: Sequence[ShapeLike] | None = None,
    dynamic_pad: bool = False,
    allow_smaller_final_batch: bool = False,
    shared_name: str | None = None,
    name: str | None = None,
) -> Any:
    """Return batches of examples that are made in several ways at the same time, as by several readers: see `batch`.

    Each of `tensors_list` is one way to make an example and has its own task; all have the same components.

    Examples:
        >>> queues = [af.train.input_producer(rows, shuffle=False) for rows in ([1, 2], [3, 4])]
        >>> batch = af.train.batch_join([[queue.dequeue()] for queue in queues], batch_size=4)
        >>> batch.shape
        TensorShape([4])
    """
    return _batches("batch_join", **locals())


@transactional
def maybe_batch_join(
    tensors_list: Sequence[Tensors],
    keep_input: TensorLike,
    batch_size: NumberLike,
    capacity: int = 32,
    enqueue_many: bool = False,
    shapes: Sequence[ShapeLike] | None = None,
    dynamic_pad: bool = False,
    allow_smaller_final_batch: bool = False,
    shared_name: str | None = None,
    name: str | None = None,
) -> Any:
    """Return batches of the examples with true `keep_input`, made in several ways: see `batch_join`.

    Examples:
        >>> x = af.train.input_producer([1, 2, 3, 4], shuffle=False).dequeue()
        >>> af.train.maybe_batch_join([[x]], af.equal(x % 2, 0), batch_size=2).shape
        TensorShape([2])
    """
    return _batches("batch_join", **locals())


@transactional
def shuffle_batch(
    tensors: Tensors,
    batch_size: NumberLike,
    capacity: int,
    min_after_dequeue: int,
    num_threads: int = 1,
    seed: int | None = None,
    enqueue_many: bool = False,
    shapes: Sequence[ShapeLike] | None = None,
    allow_smaller_final_batch: bool = False,
    shared_name: str | None = None,
    name: str | None = None,
) -> Any:
    """Return batches of examples in random order, each drawn from `min_after_dequeue` others at least. See `batch`.

    Args:
        tensors: one example: its components. The batch has the same form, except that a list of one tensor gives a
            tensor.
        batch_size: number of examples in a batch.
        capacity: the most examples in the queue; some batches more than `min_after_dequeue`.
        min_after_dequeue: number of examples that stay in the queue until the input ends.
        num_threads: number of tasks that make examples.
        seed: seed of the order.
        enqueue_many: whether `tensors` are several examples, stacked along the first axis.
        shapes: the shapes of the components of one example, if the tensors do not have them.
        allow_smaller_final_batch: whether the last batch may be smaller, if too few examples remain.
        shared_name: queues of this name are one queue, in sessions that share their container.
        name: the name of the operations.

    Raises:
        ValueError: the shapes are unknown, there are no tensors, or `capacity` is not above `min_after_dequeue`.

    Examples:
        >>> x = af.train.input_producer([1, 2, 3, 4], shuffle=False).dequeue()
        >>> batch = af.train.shuffle_batch([x], batch_size=4, capacity=20, min_after_dequeue=8, seed=1)
        >>> batch.shape
        TensorShape([4])
    """
    return _batches("shuffle_batch", **locals())


@transactional
def maybe_shuffle_batch(
    tensors: Tensors,
    batch_size: NumberLike,
    capacity: int,
    min_after_dequeue: int,
    keep_input: TensorLike,
    num_threads: int = 1,
    seed: int | None = None,
    enqueue_many: bool = False,
    shapes: Sequence[ShapeLike] | None = None,
    allow_smaller_final_batch: bool = False,
    shared_name: str | None = None,
    name: str | None = None,
) -> Any:
    """Return batches in random order of the examples with true `keep_input`: see `shuffle_batch`, `maybe_batch`.

    Examples:
        >>> x = af.train.input_producer([1, 2, 3, 4], shuffle=False).dequeue()
        >>> af.train.maybe_shuffle_batch([x], 2, 20, 8, af.equal(x % 2, 0)).shape
        TensorShape([2])
    """
    return _batches("shuffle_batch", **locals())


@transactional
def shuffle_batch_join(
    tensors_list: Sequence[Tensors],
    batch_size: NumberLike,
    capacity: int,
    min_after_dequeue: int,
    seed: int | None = None,
    enqueue_many: bool = False,
    shapes: Sequence[ShapeLike] | None = None,
    allow_smaller_final_batch: bool = False,
    shared_name: str | None = None,
    name: str | None = None,
) -> Any:
    """Return batches in random order of examples made in several ways: see `shuffle_batch`, `batch_join`.

    Examples:
        >>> queues = [af.train.input_producer(rows, shuffle=False) for rows in ([1, 2], [3, 4])]
        >>> af.train.shuffle_batch_join([[queue.dequeue()] for queue in queues], 2, 20, 8).shape
        TensorShape([2])
    """
    return _batches("shuffle_batch_join", **locals())


@transactional
def maybe_shuffle_batch_join(
    tensors_list: Sequence[Tensors],
    batch_size: NumberLike,
    capacity: int,
    min_after_dequeue: int,
    keep_input: TensorLike,
    seed: int | None = None,
    enqueue_many: bool = False,
    shapes: Sequence[ShapeLike] | None = None,
    allow_smaller_final_batch: bool = False,
    shared_name: str | None = None,
    name: str | None = None,
) -> Any:
    """Return batches in random order of the examples with true `keep_input`: see `shuffle_batch_join`.

    Examples:
        >>> x = af.train.input_producer([1, 2, 3, 4], shuffle=False).dequeue()
        >>> af.train.maybe_shuffle_batch_join([[x]], 2, 20, 8, af.equal(x % 2, 0)).shape
        TensorShape([2])
    """
    return _batches("shuffle_batch_join", **locals())


# Shared by all


def _batches(
    scope_name: str,
    name: str | None,
    tensors: Tensors | None = None,
    tensors_list: Sequence[Tensors] = (),
    keep_input: TensorLike = True,
    num_threads: int = 1,
    **queue_options: Any,
) -> Any:
    """Build the queue and its runner from the arguments of a public function. Returns a batch in their form."""
    given, options = tensors_list if tensors is None else [tensors], _Options(**queue_options)
    if isinstance(given, Tensor) or not given:
        raise ValueError("at least one set of tensors is needed, in a list")
    if num_threads < 1:
        raise ValueError(f"num_threads must be at least 1, not {num_threads}")
    keys = sorted(given[0], key=str) if isinstance(given[0], dict) else None
    many = options.enqueue_many
    with name_scope(name, scope_name, [tensor for tensors in given for tensor in _values(tensors, keys)]) as scope:
        sources = [[convert_to_tensor_or_sparse_tensor(value) for value in _values(each, keys)] for each in given]
        if len({len(each) for each in sources}) > 1:
            counts = ", ".join(str(len(each)) for each in sources)
            raise ValueError(f"all sets of tensors must have as many components, not {counts}")
        sparse = [_restore_function(column, many) for column in zip(*sources, strict=True)]
        examples = [[_serialize(source, many) for source in each] for each in sources]
        queue = _queue(examples, options, sparse)
        enqueue = queue.enqueue_many if many else queue.enqueue
        keep = _check_keep_input(keep_input, many)
        add_queue_runner(QueueRunner(queue, [_enqueue(enqueue, each, keep) for each in examples] * num_threads))
        taken = (queue.dequeue_up_to if options.allow_smaller_final_batch else queue.dequeue_many)(
            options.batch_size, name=scope
        )
        several = taken if len(sparse) > 1 else [taken]
        batches = [tensor if how is None else how(tensor) for tensor, how in zip(several, sparse, strict=True)]
    if keys is None:
        return batches if len(batches) > 1 else batches[0]
    return dict(zip(keys, batches, strict=True))


def _values(tensors: Any, keys: Sequence[Any] | None) -> list[Any]:
    """Return the components of one example. All examples must have the form of the first."""
    if isinstance(tensors, Tensor):
        raise TypeError(f"the components of an example are in a list or a dict: give [{tensors!r}]")
    if isinstance(tensors, dict) != (keys is not None) or (keys is not None and set(tensors) != set(keys)):
        raise ValueError("all sets of tensors must be lists, or dicts with the same keys")
    found = list(tensors) if keys is None else [tensors[key] for key in keys]
    if not found:
        raise ValueError("an example must have at least one component")
    return found


def _restore_function(column: Sequence[Tensor | SparseTensor], enqueue_many: bool) -> Restore | None:
    """Return the function that restores a batch of a stored sparse component; None for tensors."""
    kinds = {source.dtype if isinstance(source, SparseTensor) else None for source in column}
    if len(kinds) > 1 and None in kinds:
        raise TypeError(f"a component is sparse in all sets of tensors or in none: {column}")
    if len(kinds) > 1:
        raise TypeError(f"a sparse component must have the same dtype in all sets of tensors: {column}")
    (dtype,) = kinds
    if dtype is None:
        return None
    ranks = {source.shape.ndims for source in column}
    rank = ranks.pop() if len(ranks) == 1 else None
    whole = None if rank is None else rank + 1 - enqueue_many
    return functools.partial(deserialize_many_sparse, dtype=dtype, rank=whole)


def _serialize(source: Tensor | SparseTensor, enqueue_many: bool) -> Tensor:
    """Return the component as it is queued: a sparse tensor as strings."""
    if isinstance(source, Tensor):
        return source
    return serialize_many_sparse(source) if enqueue_many else serialize_sparse(source)


def _queue(examples: Sequence[Sequence[Tensor]], options: _Options, sparse: Sequence[Restore | None]) -> QueueBase:
    types = [[tensor.dtype for tensor in example] for example in examples]
    for other in types[1:]:
        if other != types[0]:
            first, second = (", ".join(dtype.name for dtype in each) for each in (types[0], other))
            raise TypeError(f"all sets of tensors must have the same dtypes, not {first} and {second}")
    if options.shapes is None:
        shapes = _shapes(examples, options)
    elif len(options.shapes) != len(sparse):
        raise ValueError(f"{len(options.shapes)} shapes were given for {len(sparse)} components")
    else:
        given = zip(options.shapes, sparse, strict=True)
        shapes = [as_shape(shape if how is None else [PARTS]) for shape, how in given]
    if options.min_after_dequeue is None:
        kind = PaddingFIFOQueue if options.dynamic_pad else FIFOQueue
        return kind(options.capacity, types[0], shapes, shared_name=options.shared_name)
    return RandomShuffleQueue(
        options.capacity,
        options.min_after_dequeue,
        types[0],
        shapes,
        shared_name=options.shared_name,
        seed=options.seed,
    )


def _shapes(examples: Sequence[Sequence[Tensor]], options: _Options) -> list[TensorShape]:
    """Return the merged shapes of the components of one example."""
    merge = TensorShape.most_specific_compatible_shape if options.dynamic_pad else TensorShape.merge_with
    found = []
    for column in zip(*examples, strict=True):
        shape = functools.reduce(merge, [_example_shape(tensor, options.enqueue_many) for tensor in column])
        if shape.ndims is None or not (options.dynamic_pad or shape.is_fully_defined()):
            pads = shape.ndims is not None and options.min_after_dequeue is None
            mend = "give shapes=" + ", or dynamic_pad=True if sizes differ" * pads
            raise ValueError(f"one example of {column[0]!r} has shape {shape}, which must be known: {mend}")
        found.append(shape)
    return found


def _example_shape(tensor: Tensor, enqueue_many: bool) -> TensorShape:
    """Return the shape of a component in one example."""
    shape: TensorShape = tensor.shape.with_rank_at_least(1)[1:] if enqueue_many else tensor.shape
    return shape


def _check_keep_input(keep_input: TensorLike, enqueue_many: bool) -> Tensor:
    keep = convert_to_tensor(keep_input)
    keep.spec.only(BOOL)
    rank = keep.shape.ndims
    if rank is None or rank > 1:
        raise ValueError(f"keep_input must be a scalar or a vector, not of shape {keep.shape}")
    if rank == 1 and not enqueue_many:
        raise ValueError("keep_input is a vector, which needs enqueue_many=True: one example is kept or not")
    return keep


def _enqueue(enqueue: Callable[..., Operation], example: Sequence[Tensor], keep: Tensor) -> Operation:
    """Return the operation that enqueues the kept part of one or several examples."""
    if keep.shape.ndims == 1:
        return enqueue([boolean_mask(tensor, keep) for tensor in example])
    known = constant_value(keep)
    if known is not None:
        return enqueue(example) if known else group(*example)
    kept: Tensor = cond(keep, lambda: enqueue(example), no_op)
    return kept.op
