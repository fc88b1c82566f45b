"""Datasets: the elements of each stage, as tf.data gives them, and the arguments that are refused."""

from typing import NamedTuple

import numpy as np
import pytest

import aioflow as af
from aioflow.data import Dataset


class Pair(NamedTuple):
    left: object
    right: object


def plain(element):
    """An element as Python values."""
    if isinstance(element, dict):
        return {key: plain(item) for key, item in element.items()}
    if isinstance(element, tuple):
        return tuple(map(plain, element))
    return element if isinstance(element, bytes) else np.asarray(element).tolist()


async def elements(dataset):
    return [plain(element) async for element in dataset]


def numbers(count):
    return Dataset.range(count)


def repeated(count):
    """A function of a number that returns a dataset with so many of it."""
    return lambda number: Dataset.from_tensors(number).repeat(count)


AB = [{"a": 3, "b": 1}, {"a": 4, "b": 2}]
XY = [{"x": 0, "y": (0,)}, {"x": 1, "y": (1,)}]
GIVEN = {  # name: (dataset, elements); the elements are TensorFlow's
    "range": (lambda: Dataset.range(2, 9, 3), [2, 5, 8]),
    "range down": (lambda: Dataset.range(3, 0, -1), [3, 2, 1]),
    "from_tensors": (lambda: Dataset.from_tensors([[1, 2], [3, 4]]), [[[1, 2], [3, 4]]]),
    "rows": (lambda: Dataset.from_tensor_slices([[1, 2], [3, 4]]), [[1, 2], [3, 4]]),
    "rows of a tuple": (lambda: Dataset.from_tensor_slices(([1, 2], ["a", "b"])), [(1, b"a"), (2, b"b")]),
    "rows of a dict": (lambda: Dataset.from_tensor_slices({"b": [1, 2], "a": [3, 4]}), AB),
    "zip": (lambda: Dataset.zip((numbers(3), numbers(2))), [(0, 0), (1, 1)]),
    "zip of several": (lambda: Dataset.zip(numbers(1), numbers(1)), [(0, 0)]),
    "zip of a dict": (lambda: Dataset.zip({"x": numbers(2), "y": (numbers(9),)}), XY),
    "map": (lambda: numbers(3).map(lambda number: number * 2), [0, 2, 4]),
    "map of tuples": (lambda: numbers(3).enumerate(5).map(lambda place, number: place * 10 + number), [50, 61, 72]),
    "map to a list": (lambda: numbers(2).map(lambda number: [number, number]), [(0, 0), (1, 1)]),
    "filter": (lambda: numbers(5).filter(lambda number: number % 2 == 1), [1, 3]),
    "flat_map": (lambda: Dataset.range(1, 4).flat_map(lambda number: Dataset.range(number)), [0, 0, 1, 0, 1, 2]),
    "interleave": (
        lambda: Dataset.range(1, 6).interleave(repeated(6), cycle_length=2, block_length=4),
        [1, 1, 1, 1, 2, 2, 2, 2, 1, 1, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 3, 3, 4, 4, 5, 5, 5, 5, 5, 5],
    ),
    "interleave of more than there are": (
        lambda: Dataset.range(1, 3).interleave(repeated(2), cycle_length=5, block_length=1),
        [1, 2, 1, 2],
    ),
    "batch": (lambda: numbers(5).batch(2), [[0, 1], [2, 3], [4]]),
    "batch, the last dropped": (lambda: numbers(5).batch(2, drop_remainder=True), [[0, 1], [2, 3]]),
    "batch of text": (lambda: Dataset.from_tensor_slices(["a", "b"]).batch(3), [[b"a", b"b"]]),
    "batch of batches": (lambda: numbers(4).batch(2).batch(2), [[[0, 1], [2, 3]]]),
    "batch of dicts": (lambda: Dataset.from_tensor_slices({"x": [1, 2]}).batch(2), [{"x": [1, 2]}]),
    "padded_batch": (lambda: growing().padded_batch(2, [None]), [[[1, 0], [2, 2]], [[3, 3, 3]]]),
    "padded_batch with -1": (
        lambda: growing().map(lambda row: (row, row[:, None])).padded_batch(2, ([-1], np.array([3, -1]))),
        [([[1, 0], [2, 2]], [[[1], [0], [0]], [[2], [2], [0]]]), ([[3, 3, 3]], [[[3], [3], [3]]])],
    ),
    "padded_batch to a size": (lambda: growing().take(2).padded_batch(2, [3], 7), [[[1, 7, 7], [2, 2, 7]]]),
    "padded_batch of text": (
        lambda: growing().map(lambda row: row.astype("S")).padded_batch(2, drop_remainder=True),
        [[[b"1", b""], [b"2", b"2"]]],
    ),
    "padded_batch of a tuple": (
        lambda: Dataset.zip((growing(), numbers(2))).padded_batch(2, ([None], []), (9, 0)),
        [([[1, 9], [2, 2]], [0, 1])],
    ),
    "unbatch": (lambda: Dataset.from_tensor_slices([[1, 2], [3, 4]]).unbatch(), [1, 2, 3, 4]),
    "batch of an unbatch": (lambda: numbers(4).batch(3).unbatch().batch(3), [[0, 1, 2], [3]]),
    "unbatch of a tuple": (lambda: Dataset.zip((numbers(3), numbers(3))).batch(2).unbatch(), [(0, 0), (1, 1), (2, 2)]),
    "window": (lambda: windows(4, 3), [[0, 1, 2], [3]]),
    "window with a shift": (lambda: windows(5, 3, shift=1), [[0, 1, 2], [1, 2, 3], [2, 3, 4], [3, 4], [4]]),
    "window with gaps": (lambda: windows(7, 2, shift=4), [[0, 1], [4, 5]]),
    "window with a stride": (lambda: windows(6, 2, 1, 3, drop_remainder=True), [[0, 3], [1, 4], [2, 5]]),
    "window of tuples": (
        lambda: numbers(3).enumerate().window(2).flat_map(lambda place, each: Dataset.zip((place, each.batch(2)))),
        [(0, [0, 1]), (2, [2])],
    ),
    "repeat": (lambda: numbers(2).repeat(3), [0, 1, 0, 1, 0, 1]),
    "repeat for ever": (lambda: numbers(2).repeat().take(5), [0, 1, 0, 1, 0]),
    "repeat never": (lambda: numbers(2).repeat(0), []),
    "repeat of nothing for ever": (lambda: numbers(0).repeat(), []),
    "concatenate": (lambda: numbers(2).concatenate(numbers(3)), [0, 1, 0, 1, 2]),
    "take": (lambda: numbers(5).take(2), [0, 1]),
    "take all": (lambda: numbers(2).take(-1), [0, 1]),
    "skip": (lambda: numbers(5).skip(3), [3, 4]),
    "skip all": (lambda: numbers(5).skip(-1), []),
    "skip more than there are": (lambda: numbers(5).skip(7), []),
    "shard": (lambda: numbers(7).shard(3, 1), [1, 4]),
    "enumerate": (lambda: numbers(2).enumerate(start=5), [(5, 0), (6, 1)]),
    "prefetch": (lambda: numbers(3).prefetch(1), [0, 1, 2]),
    "prefetch nothing": (lambda: numbers(3).prefetch(0), [0, 1, 2]),
    "cache": (lambda: numbers(3).cache().repeat(2), [0, 1, 2, 0, 1, 2]),
    "apply": (lambda: numbers(3).apply(lambda dataset: dataset.skip(2)), [2]),
}  # fmt: skip


def windows(count, *args, **options):
    """Windows on numbers, each as a batch."""
    return numbers(count).window(*args, **options).flat_map(lambda window: window.batch(9))


def growing():
    """[1], [2, 2], [3, 3, 3]."""
    return Dataset.range(1, 4).map(lambda number: np.full(number, number, np.int32))


@pytest.mark.parametrize("name", GIVEN)
async def test_a_stage_gives_the_elements_of_tensorflow(name):
    make, expected = GIVEN[name]
    dataset = make()
    assert await elements(dataset) == expected
    assert await elements(dataset) == expected  # each iteration begins anew


async def test_elements_have_the_dtypes_of_constants():
    (element,) = [each async for each in Dataset.from_tensors((1, 2.0, True, "text", np.float64(3), [1.5]))]
    assert [np.asarray(leaf).dtype for leaf in element] == ["int32", "float32", "bool", "S4", "float64", "float32"]
    assert [type(leaf) for leaf in element] == [np.int32, np.float32, np.bool_, bytes, np.float64, np.ndarray]


async def test_named_tuples_stay_what_they_are():
    dataset = Dataset.from_tensor_slices(Pair([1, 2], [3, 4])).batch(2)
    (pair,) = [each async for each in dataset]
    assert type(pair) is Pair
    assert plain(pair) == ([1, 2], [3, 4])


async def test_batches_of_dicts_go_by_the_keys_and_not_by_their_order():
    made = iter([{"a": 1, "b": 2}, {"b": 3, "a": 4}])
    assert await elements(numbers(2).map(lambda _: next(made)).batch(2)) == [{"a": [1, 4], "b": [2, 3]}]


@pytest.mark.parametrize(
    ("dataset", "spec"),
    [
        (Dataset.from_tensor_slices(np.zeros((5, 3))), "float64[3]"),
        (Dataset.from_tensor_slices(np.zeros((5, 3))).batch(2), "float64[?, 3]"),
        (Dataset.from_tensor_slices(np.zeros((5, 3))).batch(2, drop_remainder=True), "float64[2, 3]"),
        (Dataset.range(3).enumerate(), "(Spec(int64[]), Spec(int64[]))"),
        (Dataset.range(6).batch(2).unbatch(), "int64[]"),
        (Dataset.range(6).map(abs), "None"),
        (Dataset.from_generator(lambda: [], (af.int32, af.string), ([None], [])).padded_batch(2, ([4], [])),
         "(Spec(int32[?, 4]), Spec(string[?]))"),
        (Dataset.zip({"x": Dataset.range(3)}), "{'x': Spec(int64[])}"),
    ],
)  # fmt: skip
def test_the_spec_of_elements_is_known_as_far_as_no_function_decides_it(dataset, spec):
    assert str(dataset.element_spec) == spec


@pytest.mark.parametrize("name", GIVEN)
async def test_a_cardinality_that_is_known_is_the_number_of_elements(name):
    make, expected = GIVEN[name]
    assert make().cardinality() in (len(expected), af.data.UNKNOWN_CARDINALITY)


@pytest.mark.parametrize("count", [0, 1, 5, 6, 7])
async def test_the_cardinality_of_parts_is_known(count):
    datasets = [
        numbers(count).batch(3),
        numbers(count).batch(3, drop_remainder=True),
        numbers(count).shard(3, 1),
        numbers(count).take(4).skip(1),
        numbers(count).window(3, shift=2, stride=2),
        numbers(count).window(3, shift=2, stride=2, drop_remainder=True),
        numbers(count).repeat(2).concatenate(numbers(3)).map(abs, 2).shuffle(2).prefetch(1).cache().enumerate(),
        Dataset.zip((numbers(count), numbers(6), numbers(1).repeat())),
    ]
    for dataset in datasets:
        assert dataset.cardinality() == len([element async for element in dataset]), dataset


def test_a_dataset_without_an_end_is_known_and_so_is_one_of_unknown_length():
    endless, unknown = numbers(3).repeat(), numbers(3).filter(bool)
    for dataset in (endless.batch(2), endless.skip(2), endless.shard(2, 1), endless.window(2), unknown.repeat()):
        assert dataset.cardinality() == af.data.INFINITE_CARDINALITY, dataset
    assert unknown.concatenate(endless).cardinality() == af.data.INFINITE_CARDINALITY
    for dataset in (
        unknown.batch(2),
        unknown.take(2),
        unknown.skip(1),
        unknown.repeat(2),
        unknown.concatenate(unknown),
    ):
        assert dataset.cardinality() == af.data.UNKNOWN_CARDINALITY, dataset


async def test_what_needs_the_end_of_an_endless_dataset_is_refused():
    endless = numbers(3).repeat().batch(2)
    with pytest.raises(ValueError, match=r"cache needs the end of a dataset, and batch\(.*\) never ends"):
        endless.cache()
    with pytest.raises(ValueError, match="reduce needs the end"):
        await endless.reduce(0, lambda total, batch: total)


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: numbers(3).batch(0), ValueError, "batch_size must be at least 1, not 0"),
        (lambda: numbers(3).batch("2"), TypeError, "batch_size must be an integer"),
        (lambda: numbers(3).shuffle(0), ValueError, "buffer_size must be at least 1"),
        (lambda: numbers(3).shard(2, 2), ValueError, "index must be from 0 to 1, not 2"),
        (lambda: numbers(3).window(2, shift=0), ValueError, "shift must be at least 1, not 0"),
        (lambda: numbers(3).map(5), TypeError, "map_func must be a function, not 5"),
        (lambda: numbers(3).map(abs, num_parallel_calls=0), ValueError, "num_parallel_calls must be at least 1"),
        (lambda: numbers(3).interleave(abs, block_length=0), ValueError, "block_length"),
        (lambda: numbers(3).concatenate([1]), TypeError, "a dataset is needed"),
        (lambda: numbers(3).apply(lambda dataset: None), TypeError, "a dataset is needed, not None"),
        (lambda: Dataset.zip(), ValueError, "at least one dataset"),
        (lambda: Dataset.from_tensor_slices(3), ValueError, "first axis"),
        (lambda: Dataset.from_tensor_slices(([1], [1, 2])), ValueError, r"\[1\], \[2\]"),
        (lambda: Dataset.from_tensor_slices([[1], [2, 3]]), ValueError, "one array"),
        (lambda: Dataset.from_generator(iter([1])), TypeError, "function that returns an iterable"),
        (lambda: Dataset.from_generator(list, af.int32, ([], [])), ValueError, "1 dtypes, output_shapes has 2"),
        (lambda: Dataset.from_tensor_slices([[1]]).padded_batch(1, [None, None]), ValueError, "not compatible"),
        (lambda: numbers(3).shard(2, -1), ValueError, "index must be at least 0, not -1"),
        (lambda: numbers(3).iterate(epoch=-1), ValueError, "epoch must be at least 0, not -1"),
        (lambda: numbers(3).iterate("here"), ValueError, "iterator.state"),
    ],
)
def test_wrong_arguments_are_refused_at_once(make, error, text):
    with pytest.raises(error, match=text):
        make()


@pytest.mark.parametrize(
    ("made", "text"),
    [
        ([np.ones(1), np.ones(2)], r"component 0 has elements of shapes \[1\] and \[2\].*padded_batch"),
        ([1, 2.5], "component 0 has elements of float32 and int32"),
        ([(1, 2), (1,)], "2 different structures"),
        ([{"a": 1}, {"b": 1}], "2 different structures"),
        ([Dataset.range(1), Dataset.range(1)], "component 0 is a dataset; flat_map"),
    ],
)
async def test_elements_that_make_no_batch_name_the_batch_and_its_line(made, text):
    dataset = numbers(3).map(lambda number: made[number - 1] if number else made[0]).skip(1).batch(2)
    with pytest.raises(af.errors.InvalidArgumentError, match=f"element 0: .*{text}") as raised:
        await elements(dataset)
    assert raised.value.op == "batch"
    assert "test_dataset.py" in raised.value.line


@pytest.mark.parametrize(
    ("shapes", "text"),
    [([2], r"up to \[3\], larger than the padded shape \[2\]"), ([None, None], "rank 1; the padded shape has rank 2")],
)
async def test_elements_that_do_not_fit_their_padded_shape_are_refused(shapes, text):
    with pytest.raises(af.errors.InvalidArgumentError, match=text):
        await elements(growing().padded_batch(3, shapes))


async def test_rows_cannot_be_changed_through_an_element():
    array = np.zeros((2, 2))
    async for row in Dataset.from_tensor_slices(array):
        with pytest.raises(ValueError, match="read-only"):
            row[0] = 1


@pytest.mark.parametrize("drop_remainder", [False, True])
@pytest.mark.parametrize("buffer_size", [None, 1, 3, 20])
async def test_batches_of_rows_are_those_that_are_stacked_row_by_row(drop_remainder, buffer_size):
    rows = Dataset.from_tensor_slices({"x": np.arange(22.0).reshape(11, 2), "text": [str(n) for n in range(11)]})

    def batches(dataset):
        shuffled = dataset if buffer_size is None else dataset.shuffle(buffer_size, seed=1)
        return shuffled.batch(4, drop_remainder).repeat(2)

    direct, stacked = batches(rows), batches(rows.take(-1))
    assert await elements(direct) == await elements(stacked)
    assert str(direct.element_spec) == str(stacked.element_spec)


async def test_a_large_batch_of_rows_belongs_to_the_consumer():
    array = np.zeros((3, 1 << 18))
    async for batch in Dataset.from_tensor_slices(array).batch(2):
        batch[:] = 1
    assert array.sum() == 0


async def test_a_reduction_goes_through_all_elements():
    async def add(total, number):
        return total + number

    assert await numbers(5).reduce(np.int64(0), add) == 10
    assert await numbers(0).reduce(3, lambda total, number: total) == 3
    assert plain(await numbers(4).reduce((0, 1), lambda state, n: (state[0] + n, state[1] * 2))) == (6, 16)


async def test_a_shuffle_has_all_elements_and_the_order_of_its_seed():
    shuffled = [await elements(numbers(20).shuffle(5, seed=seed)) for seed in (1, 1, 2)]
    assert all(sorted(each) == list(range(20)) for each in shuffled)
    assert shuffled[0] == shuffled[1] != shuffled[2]
    assert all(number < place + 5 for place, number in enumerate(shuffled[0]))  # no element comes before it is read


async def test_a_shuffle_without_a_seed_differs_between_iterations_and_places():
    dataset = numbers(30).shuffle(30)
    assert await elements(dataset) != await elements(dataset)
    assert any(one != other for one, other in await elements(Dataset.zip((dataset, dataset))))


async def test_a_shuffle_reshuffles_in_each_epoch_unless_it_is_told_not_to():
    again = await elements(numbers(9).shuffle(9, seed=1).repeat(2).batch(9))
    assert again[0] != again[1]
    same = await elements(numbers(9).shuffle(9, seed=1, reshuffle_each_iteration=False).repeat(2).batch(9))
    assert same[0] == same[1]
    dataset = numbers(9).shuffle(9, seed=1)
    assert await elements(dataset.iterate(epoch=3)) == await elements(dataset.iterate(epoch=3))
    assert await elements(dataset.iterate(epoch=3)) != await elements(dataset)


async def test_a_cache_makes_each_element_once():
    made = []
    dataset = numbers(4).map(lambda number: made.append(number) or number).cache()
    assert await elements(dataset.take(2)) == [0, 1]  # not complete, so not kept
    assert await elements(dataset) == await elements(dataset) == [0, 1, 2, 3]
    assert made == [0, 1, 0, 1, 2, 3]
