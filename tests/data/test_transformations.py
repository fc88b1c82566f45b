"""`af.data.experimental`: transformations.py, made_datasets.py and the stages behind them."""

import logging
import re

import numpy as np
import pytest

import aioflow as af
from aioflow import errors
from aioflow.data import Dataset, options
from aioflow.data import experimental as e
from tests.data.test_dataset import elements
from tests.data.test_position import check_every_cut

COUNT_AND_SUM = e.Reducer(
    lambda key: (key * 10, np.int64(0)),
    lambda state, x: (state[0] + x, state[1] + 1),
    lambda total, count: (total, count),
)


def growing(most=4):
    return Dataset.range(1, most).map(lambda number: np.full(number, number))


def divided():
    """A dataset whose element number 2 fails."""
    return Dataset.range(6).map(lambda number: 6 // int(number - 2))


MADE = {
    "unbatch": (lambda: Dataset.range(4).batch(3).apply(e.unbatch()), [0, 1, 2, 3]),
    "unique": (lambda: Dataset.from_tensor_slices([1, 2, 1]).apply(e.unique()), [1, 2]),
    "enumerate": (lambda: Dataset.range(2).apply(e.enumerate_dataset(3)), [(3, 0), (4, 1)]),
    "scan": (lambda: Dataset.range(4).apply(e.scan(0, lambda s, x: (s + x, s * 10))), [0, 0, 10, 30]),
    "take_while": (lambda: Dataset.range(4).apply(e.take_while(lambda x: x < 2)), [0, 1]),
    "map_and_batch": (lambda: Dataset.range(5).apply(e.map_and_batch(lambda x: x * 2, 2, 2)), [[0, 2], [4, 6], [8]]),
    "parallel_interleave": (
        lambda: Dataset.range(3).apply(e.parallel_interleave(lambda x: Dataset.from_tensors(x).repeat(4), 2, 2)),
        [0, 0, 1, 1, 0, 0, 1, 1, 2, 2, 2, 2],
    ),
    "group_by_reducer": (
        lambda: Dataset.range(10).apply(e.group_by_reducer(lambda x: x % 3, COUNT_AND_SUM)),
        [(18, 4), (22, 3), (35, 3)],
    ),
    "group_by_reducer of pairs": (
        lambda: (
            Dataset.range(4)
            .enumerate()
            .apply(e.group_by_reducer(lambda i, x: x % 2, e.Reducer(lambda k: 0, lambda s, x: s + x[0], lambda s: s)))
        ),
        [2, 4],
    ),
    "bucket padded to its boundary": (
        lambda: growing(6).apply(e.bucket_by_sequence_length(len, [3, 6], [2, 3, 1], pad_to_bucket_boundary=True)),
        [[[1, 0], [2, 2]], [[3, 3, 3, 0, 0], [4, 4, 4, 4, 0], [5, 5, 5, 5, 5]]],
    ),
    "bucket padded to its boundary, one size fixed": (
        lambda: (
            growing(3)
            .map(lambda x: (x, np.ones(1, np.int64)))
            .bucket_by_sequence_length(lambda x, y: len(x), [4], [2, 1], ((-1,), [1]), pad_to_bucket_boundary=True)
        ),
        [([[1, 0, 0], [2, 2, 0]], [[1], [1]])],
    ),
    "dense_to_sparse_batch": (
        lambda: growing().apply(e.dense_to_sparse_batch(2, [6])),
        [([[0, 0], [1, 0], [1, 1]], [1, 2, 2], [2, 6]), ([[0, 0], [0, 1], [0, 2]], [3, 3, 3], [1, 6])],
    ),
    "sparse_batch of text": (
        lambda: Dataset.from_tensor_slices(["a", "b"]).sparse_batch(2, []),
        [([[0], [1]], [b"a", b"b"], [2])],
    ),
    "dense_to_ragged_batch": (
        lambda: growing().map(lambda x: (x, len(x))).apply(e.dense_to_ragged_batch(2)),
        [(([1, 2, 2], [0, 1, 3]), [1, 2]), (([3, 3, 3], [0, 3]), [3])],
    ),
    "the rows of a RaggedTensorValue": (
        lambda: Dataset.from_tensor_slices((af.ragged.constant_value([[1, 2], [], [3]]), ["a", "b", "c"])),
        [([1, 2], b"a"), ([], b"b"), ([3], b"c")],
    ),
    "rows of rows": (
        lambda: Dataset.from_tensor_slices({"x": af.ragged.constant_value([[[1], [2, 3]], [[4]]])}),
        [{"x": ([1, 2, 3], [0, 1, 3])}, {"x": ([4], [0, 1])}],
    ),
    "ragged batches of ragged rows": (
        lambda: Dataset.from_tensor_slices(af.ragged.constant_value([[1, 2], [], [3]])).apply(
            e.dense_to_ragged_batch(3)
        ),
        [([1, 2, 3], [0, 2, 2, 3])],
    ),
    "dense_to_ragged_batch of text in whole batches": (
        lambda: (
            Dataset.from_tensor_slices([["a", "b"], ["c", "d"], ["e", "f"]])
            .map(lambda x: x[:1] if x[0] == b"c" else x)
            .with_element_spec(af.TensorSpec([None], af.string))
            .apply(e.dense_to_ragged_batch(2, drop_remainder=True, row_splits_dtype=af.int32))
        ),
        [([b"a", b"b", b"c"], [0, 2, 3])],
    ),
    "dense_to_ragged_batch of matrices": (
        lambda: (
            Dataset.range(1, 3)
            .map(lambda x: np.full((x, 2, x), x))
            .with_element_spec(af.TensorSpec([None, 2, None], af.int64))
            .apply(e.dense_to_ragged_batch(2))
        ),
        [((([1, 1, *[2] * 8], [0, 1, 2, 4, 6, 8, 10]), [0, 2, 4, 6]), [0, 1, 3])],
    ),
    "dense_to_ragged_batch of known shapes": (
        lambda: Dataset.from_tensor_slices([[1, 2], [3, 4]]).apply(e.dense_to_ragged_batch(2)),
        [[[1, 2], [3, 4]]],
    ),
    "assert_cardinality": (lambda: Dataset.range(5).filter(lambda x: x < 3).apply(e.assert_cardinality(3)), [0, 1, 2]),
    "pad_to_cardinality": (
        lambda: Dataset.from_tensor_slices({"a": [1, 2]}).apply(e.pad_to_cardinality(3)),
        [{"a": 1, "valid": True}, {"a": 2, "valid": True}, {"a": 0, "valid": False}],
    ),
    "pad_to_cardinality of what a function makes": (
        lambda: Dataset.from_tensor_slices({"a": ["x"]}).map(lambda each: each).apply(e.pad_to_cardinality(2, "is")),
        [{"a": b"x", "is": True}, {"a": b"", "is": False}],
    ),
    "ignore_errors": (lambda: divided().apply(e.ignore_errors()), [-3, -6, 6, 3, 2]),
    "ignore_errors of parallel calls": (
        lambda: Dataset.range(6).map(lambda x: 6 // int(x - 2), 3).batch(2).ignore_errors(),
        [[-3, -6], [6, 3], [2]],
    ),
    "ignore_errors of a filter": (
        lambda: Dataset.range(6).filter(lambda x: 6 // (int(x) - 2) < 0).ignore_errors(),
        [0, 1],
    ),
    "from_list": (
        lambda: e.from_list([([1], {"a": "x"}), ([2, 3], {"a": "y"})]),
        [([1], {"a": b"x"}), ([2, 3], {"a": b"y"})],
    ),
    "Counter": (lambda: e.Counter(1, 2, af.int32).take(3), [1, 3, 5]),
    "with_element_spec": (
        lambda: growing().with_element_spec(af.TensorSpec([None], af.int64)).padded_batch(2),
        [[[1, 0], [2, 2]], [[3, 3, 3]]],
    ),
    "devices": (
        lambda: Dataset.range(2).apply(e.copy_to_device("/gpu:0")).apply(e.prefetch_to_device("/gpu:0", 2)),
        [0, 1],
    ),
    "options": (lambda: Dataset.range(3).with_options(options.Options()).batch(2), [[0, 1], [2]]),
}


@pytest.mark.whole
@pytest.mark.parametrize("name", MADE)
async def test_elements_are_those_of_tensorflow_and_go_on_from_each_position(name):
    make, expected = MADE[name]
    assert await elements(make()) == expected
    await check_every_cut(make, most=4)


async def test_random_orders_and_numbers_go_on_from_each_position():
    def shuffled():
        return Dataset.range(3).apply(e.shuffle_and_repeat(2, 2, seed=1))

    assert sorted(await elements(shuffled())) == [0, 0, 1, 1, 2, 2]
    await check_every_cut(shuffled)
    await check_every_cut(lambda: e.RandomDataset(3).take(3).repeat(2))
    same = await elements(e.RandomDataset(3).take(3).repeat(2))
    other = await elements(e.RandomDataset(3, True).take(3).repeat(2))
    assert same[:3] == same[3:]
    assert other[:3] != other[3:]
    assert all(0 <= number < 1 << 32 for number in same)


async def test_known_dtypes_and_numbers_of_elements():
    def known(dataset):
        return dataset.element_spec, dataset.cardinality()

    assert str(known(e.from_list([[1], [2, 3]]))) == "(Spec(int32[?]), 2)"
    assert str(known(Dataset.range(4).sparse_batch(2, []))) == (
        "(SparseTensorValue(indices=Spec(int64[?, 1]), values=Spec(int64[?]), dense_shape=Spec(int64[1])), 2)"
    )
    assert growing().apply(e.assert_cardinality(7)).cardinality() == 7
    assert Dataset.range(4).apply(e.assert_cardinality(e.INFINITE_CARDINALITY)).cardinality() == e.INFINITE_CARDINALITY
    assert e.cardinality(Dataset.from_tensor_slices({"a": [1]}).apply(e.pad_to_cardinality(3))) == 3
    assert e.cardinality(divided().ignore_errors()) == e.UNKNOWN_CARDINALITY
    assert await e.get_single_element(Dataset.from_tensors(5)) == 5
    declared = growing().with_element_spec(af.TensorSpec([None], af.int64))
    assert af.data.get_output_types(declared.batch(1)) is af.int64
    assert e.get_structure(declared) == af.TensorSpec([None], af.int64)
    assert af.data.get_output_classes(declared) is af.Tensor


async def test_ignored_errors_are_logged_and_those_of_sources_and_caches_are_raised(caplog):
    with caplog.at_level(logging.WARNING, "aioflow.input"):
        assert len(await elements(divided().ignore_errors(log_warning=True))) == 5
    assert "element 2: ZeroDivisionError" in caplog.text
    for dataset in (
        Dataset.from_generator(lambda: iter([1 // 0])).ignore_errors(),
        divided().cache().ignore_errors(),
        divided().ignore_errors().map(lambda number: 1 // int(number - 6)),
    ):
        with pytest.raises(errors.OpError, match="ZeroDivisionError"):
            await elements(dataset)


async def test_saved_elements_are_loaded_and_replaced(tmp_path):
    await Dataset.range(3).enumerate().save(tmp_path / "a")
    spec = (af.TensorSpec([], af.int64), af.TensorSpec([], af.int64))
    loaded = Dataset.load(tmp_path / "a", spec)
    assert await elements(loaded) == [(0, 0), (1, 1), (2, 2)]
    assert loaded.output_types == (af.int64, af.int64)
    await check_every_cut(lambda: Dataset.load(tmp_path / "a"))
    with pytest.raises(errors.OpError):
        await divided().save(tmp_path / "a")
    assert len(await elements(loaded)) == 3  # the failed call has changed nothing
    await Dataset.range(1).save(tmp_path / "a", "AUTO")
    assert await elements(Dataset.load(tmp_path / "a")) == [0]
    kept = Dataset.range(3).shuffle(3).apply(e.snapshot(tmp_path / "b"))
    assert await elements(kept) == await elements(kept) == await elements(Dataset.load(tmp_path / "b"))
    with pytest.raises(errors.NotFoundError):
        await elements(Dataset.load(tmp_path / "c"))


async def test_records_are_written(tmp_path):
    writer = e.TFRecordWriter(tmp_path / "records", "GZIP")
    await writer.write(Dataset.from_tensor_slices(["a", "b"]).repeat(200))
    assert await elements(af.data.TFRecordDataset(tmp_path / "records", "GZIP")) == [b"a", b"b"] * 200
    with pytest.raises(errors.InvalidArgumentError, match="are bytes, unlike those in"):
        await writer.write(Dataset.range(3))


@pytest.mark.parametrize(
    ("dataset", "error", "text"),
    [
        (Dataset.range(4).apply(e.assert_cardinality(5)), errors.FailedPreconditionError, "5 elements, and it has 4"),
        (
            Dataset.range(4).apply(e.assert_cardinality(2)),
            errors.FailedPreconditionError,
            "2 elements, and it has more",
        ),
        (Dataset.range(4).apply(e.assert_cardinality(-1)), errors.FailedPreconditionError, "no end, and it has 4"),
        (growing().sparse_batch(2, [2]), errors.InvalidArgumentError, "shape [3] is larger than a row, [2]"),
        (growing().sparse_batch(2, []), errors.InvalidArgumentError, "rank 1 is no row of rank 0"),
        (
            Dataset.range(1, 3)
            .map(lambda x: np.ones((2, x)))
            .with_element_spec(af.TensorSpec([None, 2], af.float64))
            .apply(e.dense_to_ragged_batch(2)),
            errors.InvalidArgumentError,
            "[2, 1]",
        ),
        (growing().apply(e.pad_to_cardinality(5)), errors.InvalidArgumentError, "its elements must be dicts"),
        (
            Dataset.range(0).map(lambda x: {"a": x}).apply(e.pad_to_cardinality(5)),
            errors.InvalidArgumentError,
            "no element shows the dtypes",
        ),
        (
            growing(6).bucket_by_sequence_length(len, [3], [2, 1], pad_to_bucket_boundary=True),
            errors.InvalidArgumentError,
            "as long as the last boundary, 3",
        ),
        (
            Dataset.range(2).apply(e.group_by_reducer(lambda x: 0.5, COUNT_AND_SUM)),
            errors.InvalidArgumentError,
            "element 0: a key or a length is an integer",
        ),
        (
            Dataset.range(2).apply(
                e.group_by_reducer(lambda x: x, e.Reducer(lambda k: 0, lambda s, x: (s, x), lambda s: s))
            ),
            errors.InvalidArgumentError,
            "a state of another structure",
        ),
        (
            growing().with_element_spec(af.TensorSpec([2], af.int64)),
            errors.InvalidArgumentError,
            "element 0: component must have shape [2]",
        ),
        (
            growing().with_element_spec((af.TensorSpec([2], af.int64),)),
            errors.InvalidArgumentError,
            "element 0: the element is not like the declared",
        ),
    ],
)
async def test_errors_name_the_stage_and_its_line(dataset, error, text):
    with pytest.raises(error, match=re.escape(text)) as raised:
        await elements(dataset)
    assert raised.value.op
    assert "test_transformations.py" in raised.value.line


def test_wrong_arguments_are_refused_at_once(tmp_path):
    numbers = Dataset.range(3)
    for call, error, text in [
        (lambda: e.from_list([]), ValueError, "at least one element"),
        (lambda: e.from_list(3), TypeError, "a list of elements"),
        (lambda: e.from_list([(1,), (2, 3)]), ValueError, "different structures"),
        (lambda: e.from_list([1, 2.5]), TypeError, "int32 and float32"),
        (lambda: e.map_and_batch(len, 2, 3, num_parallel_calls=4), ValueError, "not both"),
        (lambda: e.group_by_reducer(len, len), TypeError, "needs an af.data.experimental.Reducer"),
        (lambda: e.Reducer(len, 3, len), TypeError, "reduce_func must be a function"),
        (lambda: numbers.apply(e.pad_to_cardinality(2)), ValueError, "has more than 2 elements"),
        (lambda: numbers.apply(e.pad_to_cardinality(5)), ValueError, "must be dicts"),
        (lambda: numbers.repeat().apply(e.pad_to_cardinality(5)), ValueError, "has more than 5 elements"),
        (lambda: e.prefetch_to_device("what"), ValueError, "what"),
        (lambda: numbers.snapshot(tmp_path, "GZIP"), ValueError, "compression must be"),
        (lambda: numbers.repeat().snapshot(tmp_path), ValueError, "never ends"),
        (lambda: numbers.with_element_spec(af.int64), TypeError, "a TensorSpec for each component"),
        (lambda: numbers.with_options({}), TypeError, "needs af.data.Options"),
        (lambda: e.get_structure(3), TypeError, "a dataset or an iterator"),
    ]:
        with pytest.raises(error, match=text):
            call()


def test_options_are_kept_merged_and_checked():
    first, second = af.data.Options(), af.data.Options()
    first.deterministic, first.threading.private_threadpool_size = False, 3
    second.deterministic = True
    second.autotune.autotune_algorithm = e.AutotuneAlgorithm.HILL_CLIMB
    dataset = Dataset.range(3).with_options(first).shuffle(2).with_options(second).batch(2)
    assert dataset.options() == first.merge(second)
    assert (dataset.options().deterministic, dataset.options().threading.private_threadpool_size) == (True, 3)
    assert first != second
    assert second == af.data.Options().merge(second)
    with pytest.raises(AttributeError, match="Options has no option 'fast'; it has autotune"):
        first.fast = True
    with pytest.raises(AttributeError, match="has no option 'fast'"):
        _ = first.threading.fast
    with pytest.raises(TypeError, match=r"Options\.deterministic cannot be 3"):
        first.deterministic = 3


def test_rows_beside_an_array_are_as_many():
    with pytest.raises(ValueError, match=r"the same number of rows; they have \['2', '3'\]"):
        Dataset.from_tensor_slices((af.ragged.constant_value([[1], [2, 3]]), [1, 2, 3]))
