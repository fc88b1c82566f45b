"""Saved positions: an iteration goes on from its state exactly, wherever it was cut, in another process too."""

import functools
import json
import random

import numpy as np
import pytest

from aioflow import errors
from aioflow.data import CsvDataset, Dataset, FixedLengthRecordDataset, TextLineDataset, TFRecordDataset
from aioflow.files.tfrecord import TFRecordWriter
from aioflow.library.type_specs import TensorSpec
from tests.data.test_dataset import elements, plain
from tests.support.scale import amount


def numbers(count=7):
    return Dataset.range(count)


def odd(number):
    return number % 2 == 1


async def doubled(number):
    return number * 2


async def counted():
    for number in range(6):
        yield number


def inner(number):
    """A dataset in which much can be cut."""
    return Dataset.range(number, number + 3).shuffle(2).enumerate()


PIPELINES = {
    "range": numbers,
    "from_tensors": lambda: Dataset.from_tensors(3),
    "slices": lambda: Dataset.from_tensor_slices(np.arange(12).reshape(6, 2)),
    "generator": lambda: Dataset.from_generator(lambda: iter(range(6))),
    "async generator": lambda: Dataset.from_generator(counted).batch(2),
    "map": lambda: numbers().map(doubled),
    "parallel map": lambda: numbers().map(doubled, num_parallel_calls=3),
    "filter": lambda: numbers().filter(odd),
    "take": lambda: numbers().take(4),
    "skip": lambda: numbers().skip(3),
    "shard": lambda: numbers().shard(3, 1),
    "enumerate": lambda: numbers().skip(2).enumerate(),
    "batch": lambda: numbers().batch(3),
    "batch of rows": lambda: Dataset.from_tensor_slices([5, 6, 7, 8, 9]).batch(2).repeat(2),
    "batch of shuffled rows": lambda: Dataset.from_tensor_slices([5, 6, 7, 8, 9]).shuffle(3).batch(2).repeat(2),
    "padded_batch": lambda: numbers().padded_batch(3),
    "unbatch": lambda: numbers().batch(3).unbatch(),
    "window": lambda: numbers().shuffle(3).window(3, shift=1, stride=2).flat_map(lambda window: window.batch(3)),
    "window with gaps": lambda: numbers(11).window(2, shift=4).flat_map(lambda window: window),
    "repeat": lambda: numbers(3).repeat(3),
    "concatenate": lambda: numbers(3).concatenate(numbers(0)).concatenate(numbers(2)),
    "zip": lambda: Dataset.zip((numbers(3).repeat(), numbers().map(doubled))),
    "shuffle": lambda: numbers().shuffle(3),
    "shuffle in epochs": lambda: numbers(4).shuffle(3).repeat(3).batch(5),
    "shuffle that does not reshuffle": lambda: numbers(4).shuffle(4, reshuffle_each_iteration=False).repeat(2),
    "prefetch": lambda: numbers().filter(odd).prefetch(2),
    "prefetch of a shuffle": lambda: numbers().shuffle(3).batch(2).prefetch(2).repeat(2),
    "flat_map": lambda: numbers(3).flat_map(inner),
    "interleave": lambda: numbers(4).shuffle(4).interleave(inner, cycle_length=3, block_length=2),
    "parallel interleave": lambda: numbers(4).interleave(inner, 3, 2, num_parallel_calls=2).batch(2),
    "take_while": lambda: numbers().take_while(lambda number: number != 4).batch(3),
    "scan": lambda: numbers().shuffle(3).scan(0, lambda total, number: (total + number, (total, number))),
    "unique": lambda: numbers(9).map(lambda number: number % 4).unique().repeat(2),
    "counter": lambda: Dataset.counter(5, -2).take(4),
    "interleaved batches": lambda: numbers(4).interleave(lambda n: Dataset.range(5 + n), 3, 2).batch(3),
    "batches of a flat_map": lambda: numbers(3).flat_map(lambda n: Dataset.range(3 * n)).batch(4).repeat(2),
    "rebatch": lambda: numbers().batch(3).rebatch(2),
    "group_by_window": lambda: numbers(11).group_by_window(
        lambda number: number % 3, lambda key, window: window.shuffle(2).enumerate(), window_size=2
    ),
    "bucket_by_sequence_length": lambda: (
        numbers(9).map(lambda n: np.full(n % 5, n)).bucket_by_sequence_length(len, [2, 4], [3, 2, 1])
    ),
    "choose_from_datasets": lambda: Dataset.choose_from_datasets(
        [numbers(3), numbers(9).shuffle(3)], Dataset.from_tensor_slices([1, 0, 1, 0, 0, 0, 1, 1]), False
    ),
    "choose until one ends": lambda: Dataset.choose_from_datasets([numbers(2), numbers()], numbers(2).repeat()).batch(
        3
    ),  # at its end inside a batch
    "sample_from_datasets": lambda: Dataset.sample_from_datasets([numbers(5), numbers(3)], [0.6, 0.4]).repeat(2),
    "rejection_resample": lambda: numbers(40).rejection_resample(lambda n: n % 3 // 2, [0.5, 0.5]).repeat(2),
    "sample until one ends": lambda: Dataset.sample_from_datasets([numbers(5), numbers(3)], None, 7, True),
    "cache": lambda: numbers(3).map(doubled).cache().repeat(3),
    "everything": lambda: (
        numbers(12).shuffle(5).map(doubled, 3).filter(lambda n: n > 3).batch(2).prefetch(2).unbatch().cache().repeat(2)
    ),
}


@pytest.mark.whole
@pytest.mark.parametrize("name", PIPELINES)
async def test_an_iteration_goes_on_from_every_element(name):
    await check_every_cut(PIPELINES[name])


async def check_every_cut(make, most=99):
    """Cut an iteration after each element, or `most` of them, and go on with a dataset that is made anew."""
    whole, states = [], []
    iterator = make().iterate(epoch=2)
    while True:
        states.append(json.dumps(iterator.state()))
        try:
            whole.append(plain(await anext(iterator)))
        except StopAsyncIteration:
            break
    cuts = list(enumerate([*states, json.dumps(iterator.state())]))
    for cut, state in cuts[:: 1 + len(cuts) // most]:
        assert await elements(make().iterate(json.loads(state))) == whole[cut:], f"cut after {cut} elements"
    await check_two_cuts(make, states, whole)


async def check_two_cuts(make, states, whole):
    """An iteration that went on from a state has states, too."""
    cut = len(whole) // 2
    if not whole:
        return
    async with make().iterate(json.loads(states[cut])) as iterator:
        assert iterator.state() == json.loads(states[cut])
        assert plain(await anext(iterator)) == whole[cut]
        assert await elements(make().iterate(iterator.state())) == whole[cut + 1 :]


def without_fives(number):
    """The number; a failure for multiples of 5."""
    return number if number % 5 else 1 // 0


STAGES = [  # from a dataset of numbers to another one
    lambda dataset: dataset.map(doubled),
    lambda dataset: dataset.map(doubled, num_parallel_calls=2),
    lambda dataset: dataset.filter(lambda number: number % 3 != 1),
    lambda dataset: dataset.skip(1),
    lambda dataset: dataset.take(9),
    lambda dataset: dataset.shard(2, 0),
    lambda dataset: dataset.shuffle(3, seed=1),
    lambda dataset: dataset.prefetch(2),
    lambda dataset: dataset.repeat(2),
    lambda dataset: dataset.cache(),
    lambda dataset: dataset.batch(3).unbatch(),
    lambda dataset: dataset.window(2, shift=1).flat_map(lambda window: window),
    lambda dataset: dataset.concatenate(numbers(2)),
    lambda dataset: Dataset.zip((dataset, numbers(99))).map(lambda one, other: one + other),
    lambda dataset: dataset.interleave(lambda number: Dataset.range(number, number + 2), 2, 1),
    lambda dataset: dataset.interleave(lambda number: Dataset.range(number, number + 2), 3, 2, 2),
    lambda dataset: dataset.map(without_fives).ignore_errors(),
    lambda dataset: dataset.map(without_fives, 2).filter(lambda number: without_fives(number + 1) > 0).ignore_errors(),
    lambda dataset: dataset.with_element_spec(TensorSpec([], np.int64)),
]


SOURCES = [
    numbers,
    lambda: Dataset.from_generator(counted, np.int64),
    lambda: Dataset.from_tensor_slices(np.array([5, 1, 7])),
]


def drawn(seed):
    """A source, and stages to follow it."""
    draw = random.Random(seed)
    return draw.choice(SOURCES), draw.choices(STAGES, k=draw.randint(2, 6))


@pytest.mark.parametrize("seed", range(amount(20, 300)))
async def test_any_pipeline_goes_on_from_any_element(seed):
    source, stages = drawn(seed)

    def make():
        return functools.reduce(lambda dataset, stage: stage(dataset), stages, source().skip(0)).take(40)

    await check_every_cut(make, most=6)


@pytest.mark.parametrize("seed", range(amount(20, 300)))
async def test_working_ahead_changes_no_element_of_any_pipeline(seed):
    source, stages = drawn(seed)
    plain, ahead = source().take(40), source().take(40)
    for stage in stages:
        plain, ahead = stage(plain).take(40), stage(ahead).take(40).prefetch(1)
    assert await elements(plain) == await elements(ahead)


@pytest.mark.parametrize("parallel", [None, 2])
async def test_an_iteration_over_files_goes_on_from_every_record(tmp_path, parallel):
    for name in ("a", "b", "c"):
        with TFRecordWriter(tmp_path / f"{name}.tfrecord") as writer:
            for number in range(3):
                writer.write(f"{name}{number}")
        (tmp_path / f"{name}.txt").write_text("".join(f'{number},"{name}\n{name}"\n' for number in range(3)))

    def names(pattern):
        return Dataset.list_files(str(tmp_path / pattern), seed=1)

    await check_every_cut(lambda: TFRecordDataset(names("*.tfrecord"), num_parallel_reads=parallel).batch(2))
    await check_every_cut(lambda: TextLineDataset(names("*.txt"), num_parallel_reads=parallel))
    await check_every_cut(lambda: FixedLengthRecordDataset(names("*.txt"), 4, num_parallel_reads=parallel))
    await check_every_cut(lambda: CsvDataset(names("*.txt"), [np.int32, ""]))


async def test_an_iteration_goes_on_from_every_element_of_a_cache_file(tmp_path):
    await check_every_cut(lambda: numbers(3).shuffle(3, seed=1).cache(tmp_path / "cache").repeat(3))


async def test_a_position_in_a_cache_does_not_depend_on_what_is_kept():
    dataset = numbers(9).shuffle(9).cache()
    await elements(dataset)
    iterator = dataset.iterate()
    await anext(iterator)
    state, rest = iterator.state(), await elements(iterator)
    anew = numbers(9).shuffle(9).cache()
    assert await elements(anew) != [0, *rest]  # it keeps another order
    assert await elements(anew.iterate(state)) == rest


async def test_after_a_failure_the_state_leads_to_the_element_that_failed():
    broken = True

    def refuse(number):
        if number == 5 and broken:
            raise ValueError("five")
        return number

    dataset = numbers(9).map(refuse).batch(2)
    iterator = dataset.iterate()
    with pytest.raises(errors.InvalidArgumentError):
        await elements(iterator)
    broken = False
    assert await elements(dataset.iterate(iterator.state())) == [[4, 5], [6, 7], [8]]


@pytest.mark.parametrize(
    "build",
    [
        lambda dataset: dataset,
        lambda dataset: dataset.shuffle(2),
        lambda dataset: dataset.interleave(lambda number: Dataset.range(number), 2),
        lambda dataset: dataset.cache(),
    ],
    ids=["generator", "shuffle", "interleave", "cache"],
)
async def test_data_that_ends_before_a_saved_position_is_an_error(build):
    given = [1, 2, 3, 4]
    dataset = build(Dataset.from_generator(lambda: given))
    async with dataset.iterate() as iterator:
        for _ in range(3):
            await anext(iterator)
        given.clear()
        with pytest.raises(errors.FailedPreconditionError, match="ends before the saved position"):
            await elements(dataset.iterate(iterator.state()))


@pytest.mark.parametrize("place", [-1, 1.5, "x", None, 1 << 70, [1]])
def test_a_forged_position_is_refused(place):
    dataset = Dataset.range(9).batch(2)
    state = dataset.iterate().state()
    state["position"] = [0, place] if place is not None else [0]
    with pytest.raises(ValueError, match="position"):
        dataset.iterate(state)


def test_a_state_of_another_dataset_is_refused():
    state = numbers().batch(2).iterate().state()
    with pytest.raises(ValueError, match=r"batch\(range\(7\), 2\).*batch\(range\(7\), 3\)"):
        numbers().batch(3).iterate(state)
