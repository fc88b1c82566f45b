"""`af.data.experimental`: what makes a dataset of another one, as functions for `Dataset.apply`.

    dataset = dataset.apply(af.data.experimental.unbatch())

Each is a method of `Dataset`, too, under its name or the one that its docstring says.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from aioflow.data.calls import UserFunction
from aioflow.data.checks import AUTOTUNE, INFINITE_CARDINALITY, natural, positive
from aioflow.data.counting import AssertCardinality, PadToCardinality
from aioflow.data.dataset import Dataset
from aioflow.data.ragged_batch import RaggedBatch
from aioflow.data.reducing import GroupByReducer, Reducer
from aioflow.graph.device_spec import DeviceSpec
from aioflow.library.ragged.partitions import splits_dtype
from aioflow.tensors.dtypes import DTypeLike, ShapeLike, int64
from aioflow.tensors.recursion import safe_repr

Transformation: TypeAlias = Callable[[Dataset], Dataset]
"""Makes a dataset of another one: an argument of `Dataset.apply`."""


def unbatch() -> Transformation:
    """See `Dataset.unbatch`.

    Examples:
        >>> rows = af.data.Dataset.range(4).batch(2).apply(af.data.experimental.unbatch())
        >>> [int(row) async for row in rows]
        [0, 1, 2, 3]
    """
    return lambda dataset: dataset.unbatch()


def unique() -> Transformation:
    """See `Dataset.unique`.

    Examples:
        >>> words = af.data.Dataset.from_tensor_slices(["a", "b", "a"]).apply(af.data.experimental.unique())
        >>> [word async for word in words]
        [b'a', b'b']
    """
    return lambda dataset: dataset.unique()


def ignore_errors(log_warning: bool = False) -> Transformation:
    """See `Dataset.ignore_errors`.

    Examples:
        >>> shares = af.data.Dataset.range(4).map(lambda number: 6 // int(number))
        >>> [int(share) async for share in shares.apply(af.data.experimental.ignore_errors())]
        [6, 3, 2]
    """
    return lambda dataset: dataset.ignore_errors(log_warning)


def enumerate_dataset(start: int = 0) -> Transformation:
    """See `Dataset.enumerate`.

    Examples:
        >>> pairs = af.data.Dataset.from_tensor_slices(["a", "b"]).apply(af.data.experimental.enumerate_dataset(5))
        >>> [(int(number), word) async for number, word in pairs]
        [(5, b'a'), (6, b'b')]
    """
    return lambda dataset: dataset.enumerate(start)


def scan(initial_state: Any, scan_func: Callable[..., Any]) -> Transformation:
    """See `Dataset.scan`.

    Examples:
        >>> sums = af.data.experimental.scan(0, lambda total, number: (total + number, total + number))
        >>> [int(total) async for total in af.data.Dataset.range(4).apply(sums)]
        [0, 1, 3, 6]
    """
    return lambda dataset: dataset.scan(initial_state, scan_func)


def take_while(predicate: Callable[..., Any]) -> Transformation:
    """See `Dataset.take_while`.

    Examples:
        >>> small = af.data.experimental.take_while(lambda number: number < 2)
        >>> [int(number) async for number in af.data.Dataset.range(9).apply(small)]
        [0, 1]
    """
    return lambda dataset: dataset.take_while(predicate)


def shuffle_and_repeat(buffer_size: int, count: int | None = None, seed: int | None = None) -> Transformation:
    """A shuffle and a repeat: see `Dataset.shuffle` and `Dataset.repeat`.

    Examples:
        >>> twice = af.data.Dataset.range(3).apply(af.data.experimental.shuffle_and_repeat(3, 2))
        >>> sorted([int(number) async for number in twice])
        [0, 0, 1, 1, 2, 2]
    """
    return lambda dataset: dataset.shuffle(buffer_size, seed).repeat(count)


def map_and_batch(
    map_func: Callable[..., Any],
    batch_size: int,
    num_parallel_batches: int | None = None,
    drop_remainder: bool = False,
    num_parallel_calls: int | None = None,
) -> Transformation:
    """A map and a batch: see `Dataset.map` and `Dataset.batch`.

    Args:
        map_func: the function.
        batch_size: the number of elements of a batch.
        num_parallel_batches: the most batches whose calls run at a time.
        drop_remainder: whether a last batch of fewer elements is left out.
        num_parallel_calls: the most calls at a time, instead of `num_parallel_batches`.

    Raises:
        ValueError: both numbers are given.

    Examples:
        >>> squares = af.data.experimental.map_and_batch(lambda number: number * number, 2)
        >>> [batch.tolist() async for batch in af.data.Dataset.range(3).apply(squares)]
        [[0, 1], [4]]
    """
    size = positive(batch_size, "batch_size")
    if num_parallel_batches is not None and num_parallel_calls is not None:
        raise ValueError("map_and_batch needs one of num_parallel_batches and num_parallel_calls, not both")
    calls = num_parallel_calls
    if num_parallel_batches is not None:
        calls = size * positive(num_parallel_batches, "num_parallel_batches")
    return lambda dataset: dataset.map(map_func, calls).batch(size, drop_remainder)


def parallel_interleave(
    map_func: Callable[..., Any],
    cycle_length: int,
    block_length: int = 1,
    sloppy: bool = False,
    buffer_output_elements: int | None = None,
    prefetch_input_elements: int | None = None,
) -> Transformation:
    """See `Dataset.interleave`: all open datasets make elements ahead.

    Args:
        map_func: returns a dataset for an element.
        cycle_length: the number of datasets that are open at a time.
        block_length: the number of elements from one dataset before the next one has its turn.
        sloppy: permits another order, which is never taken.
        buffer_output_elements: for compatibility: each dataset makes up to `block_length` elements ahead.
        prefetch_input_elements: the number of elements of this dataset that are made ahead; none by default.

    Examples:
        >>> pairs = af.data.experimental.parallel_interleave(lambda n: af.data.Dataset.from_tensors(n).repeat(2), 2)
        >>> [int(number) async for number in af.data.Dataset.range(2).apply(pairs)]
        [0, 1, 0, 1]
    """
    ahead = natural(prefetch_input_elements or 0, "prefetch_input_elements")
    return lambda dataset: dataset.prefetch(ahead).interleave(map_func, cycle_length, block_length, cycle_length)


def group_by_window(
    key_func: Callable[..., Any],
    reduce_func: Callable[[Any, Any], Any],
    window_size: int | None = None,
    window_size_func: Callable[[Any], Any] | None = None,
) -> Transformation:
    """See `Dataset.group_by_window`.

    Examples:
        >>> pairs = af.data.experimental.group_by_window(lambda n: n % 2, lambda key, window: window.batch(2), 2)
        >>> [batch.tolist() async for batch in af.data.Dataset.range(4).apply(pairs)]
        [[0, 2], [1, 3]]
    """
    return lambda dataset: dataset.group_by_window(key_func, reduce_func, window_size, window_size_func)


def group_by_reducer(key_func: Callable[..., Any], reducer: Reducer) -> Transformation:
    """A dataset of one result of a reducer for each key, by rising keys, which come at the end of the data.

    To go on from a state, it reduces all elements again.

    Args:
        key_func: returns the key of an element, an integer.
        reducer: makes an element of all that have one key.

    Examples:
        >>> sums = af.data.experimental.Reducer(lambda key: 0, lambda total, n: total + n, lambda total: total)
        >>> by_parity = af.data.experimental.group_by_reducer(lambda number: number % 2, sums)
        >>> [int(total) async for total in af.data.Dataset.range(5).apply(by_parity)]
        [6, 4]
    """
    key = UserFunction(key_func, "key_func")
    if not isinstance(reducer, Reducer):
        raise TypeError(f"group_by_reducer needs an af.data.experimental.Reducer, not {safe_repr(reducer)}")
    return lambda dataset: Dataset(GroupByReducer(dataset.stage, key, reducer))


def bucket_by_sequence_length(
    element_length_func: Callable[..., Any],
    bucket_boundaries: Sequence[int],
    bucket_batch_sizes: Sequence[int],
    padded_shapes: Any = None,
    padding_values: Any = None,
    pad_to_bucket_boundary: bool = False,
    no_padding: bool = False,
    drop_remainder: bool = False,
) -> Transformation:
    """See `Dataset.bucket_by_sequence_length`.

    Examples:
        >>> rows = af.data.Dataset.range(1, 4).map(lambda number: np.full(number, number))
        >>> batches = rows.apply(af.data.experimental.bucket_by_sequence_length(len, [3], [2, 2]))
        >>> [batch.tolist() async for batch in batches]
        [[[1, 0], [2, 2]], [[3, 3, 3]]]
    """
    return lambda dataset: dataset.bucket_by_sequence_length(
        element_length_func, bucket_boundaries, bucket_batch_sizes, padded_shapes, padding_values,
        pad_to_bucket_boundary, no_padding, drop_remainder,
    )  # fmt: skip


def rejection_resample(
    class_func: Callable[..., Any],
    target_dist: Sequence[float],
    initial_dist: Sequence[float] | None = None,
    seed: int | None = None,
) -> Transformation:
    """See `Dataset.rejection_resample`.

    Examples:
        >>> even = af.data.experimental.rejection_resample(lambda number: number % 2, [1.0, 0.0], [0.5, 0.5])
        >>> [int(number) async for _, number in af.data.Dataset.range(5).apply(even)]
        [0, 2, 4]
    """
    return lambda dataset: dataset.rejection_resample(class_func, target_dist, initial_dist, seed)


def dense_to_sparse_batch(batch_size: int, row_shape: ShapeLike) -> Transformation:
    """See `Dataset.sparse_batch`.

    Examples:
        >>> rows = af.data.Dataset.range(1, 3).map(lambda number: np.full(number, number))
        >>> batches = rows.apply(af.data.experimental.dense_to_sparse_batch(2, [4]))
        >>> [batch.dense_shape.tolist() async for batch in batches]
        [[2, 4]]
    """
    return lambda dataset: dataset.sparse_batch(batch_size, row_shape)


def dense_to_ragged_batch(
    batch_size: int, drop_remainder: bool = False, row_splits_dtype: DTypeLike = int64
) -> Transformation:
    """A dataset of batches: of arrays of unknown sizes `RaggedTensorValue`s, with axes ragged up to the last such one.

    Arrays of a known shape are stacked, as by `Dataset.batch`.

    Args:
        batch_size: the number of elements of a batch.
        drop_remainder: whether a last batch of fewer elements is left out.
        row_splits_dtype: int32 or int64.

    Raises:
        InvalidArgumentError: in the iteration: the elements differ in dtype, rank, or a size that was known.

    Examples:
        >>> rows = af.data.Dataset.range(1, 4).map(lambda number: np.full(number, number))
        >>> batches = rows.apply(af.data.experimental.dense_to_ragged_batch(2))
        >>> [batch.to_list() async for batch in batches]
        [[[1], [2, 2]], [[3, 3, 3]]]
    """
    size, splits = positive(batch_size, "batch_size"), splits_dtype(row_splits_dtype)
    return lambda dataset: Dataset(RaggedBatch(dataset.stage, size, bool(drop_remainder), splits))


def snapshot(path: Any, compression: str | None = "AUTO") -> Transformation:
    """See `Dataset.snapshot`.

    Examples:
        >>> kept = af.data.Dataset.range(2).apply(af.data.experimental.snapshot("numbers"))
        >>> first = [int(number) async for number in kept]
        >>> [int(number) async for number in af.data.Dataset.load("numbers")]
        [0, 1]
    """
    return lambda dataset: dataset.snapshot(path, compression)


def assert_cardinality(expected_cardinality: int) -> Transformation:
    """The same dataset, whose number of elements is known.

    Args:
        expected_cardinality: the number of elements, or `INFINITE_CARDINALITY`.

    Raises:
        FailedPreconditionError: in the iteration, after the elements: there are more or fewer.

    Examples:
        >>> some = af.data.Dataset.range(4).filter(lambda number: number < 2)
        >>> some.apply(af.data.experimental.assert_cardinality(2)).cardinality()
        2
    """
    count = expected_cardinality
    expected = float("inf") if count == INFINITE_CARDINALITY else natural(count, "expected_cardinality")
    return lambda dataset: Dataset(AssertCardinality(dataset.stage, expected))


def pad_to_cardinality(cardinality: int, mask_key: str = "valid") -> Transformation:
    """A dataset of dicts, to which elements of zeros and empty text are added up to a number of elements.

    Args:
        cardinality: the number of elements.
        mask_key: the name of a further entry of each element, which tells whether the dataset had it.

    Raises:
        ValueError: the dataset is known to have more elements, no dicts, or dicts with such an entry.

    Examples:
        >>> padded = af.data.Dataset.from_tensor_slices({"x": [7]}).apply(af.data.experimental.pad_to_cardinality(2))
        >>> [(int(each["x"]), bool(each["valid"])) async for each in padded]
        [(7, True), (0, False)]
    """
    count = positive(cardinality, "cardinality")

    def padded(dataset: Dataset) -> Dataset:
        size, spec = dataset.cardinality(), dataset.element_spec
        if size == INFINITE_CARDINALITY or size > count:
            raise ValueError(f"{dataset!r} has more than {count} elements, to which it would be padded")
        if spec is not None and (not isinstance(spec, dict) or mask_key in spec):
            raise ValueError(f"elements must be dicts without {mask_key!r} to get such an entry, not like {spec}")
        return Dataset(PadToCardinality(dataset.stage, count, mask_key))

    return padded


def prefetch_to_device(device: str, buffer_size: int | None = None) -> Transformation:
    """See `Dataset.prefetch`. A step copies the elements that it takes to the devices that compute with them.

    Args:
        device: the name of the device, which is checked.
        buffer_size: the most elements that are taken ahead; by default the number of CPUs.

    Examples:
        >>> ahead = af.data.Dataset.range(2).apply(af.data.experimental.prefetch_to_device("/gpu:0"))
        >>> [int(number) async for number in ahead]
        [0, 1]
    """
    DeviceSpec.from_string(device)
    return lambda dataset: dataset.prefetch(AUTOTUNE if buffer_size is None else buffer_size)


def copy_to_device(target_device: str, source_device: str = "/cpu:0") -> Transformation:
    """The same dataset. A step copies the elements that it takes to the devices that compute with them.

    Args:
        target_device: the name of a device, which is checked.
        source_device: the same.

    Examples:
        >>> there = af.data.Dataset.range(2).apply(af.data.experimental.copy_to_device("/gpu:0"))
        >>> [int(number) async for number in there]
        [0, 1]
    """
    DeviceSpec.from_string(target_device), DeviceSpec.from_string(source_device)
    return lambda dataset: dataset
