"""Datasets of elements gathered by key, length, chance and what came before: grouping.py, choice.py."""

import re

import numpy as np
import pytest

from aioflow import errors
from aioflow.data import Dataset
from tests.data.test_dataset import elements, plain

WORDS = [b"a", b"bb", b"a", b"ccc", b"bb", b"a"]


async def add(total, number):
    return total + number, total * 10


def pairs_of(key, window):
    return window.batch(9).map(lambda batch: (key, batch))


@pytest.mark.parametrize(
    ("dataset", "expected"),
    [
        (Dataset.range(9).take_while(lambda number: number != 4), [0, 1, 2, 3]),
        (Dataset.range(4).scan(0, add), [0, 0, 10, 30]),
        (Dataset.range(3).enumerate().scan((0, 1), lambda s, e: ((s[1], s[0]), s[0] + e[1])), [0, 2, 2]),
        (Dataset.from_tensor_slices(WORDS).unique(), [b"a", b"bb", b"ccc"]),
        (Dataset.from_tensor_slices([[1, 2], [1, 2], [2, 1]]).unique(), [[1, 2], [2, 1]]),
        (Dataset.counter(3, 4).take(3), [3, 7, 11]),
        (Dataset.range(5).batch(2).rebatch(3), [[0, 1, 2], [3, 4]]),
        (
            Dataset.range(7).group_by_window(lambda n: n % 2, pairs_of, window_size=2),
            [(0, [0, 2]), (1, [1, 3]), (0, [4, 6]), (1, [5])],
        ),
        (
            Dataset.range(7).group_by_window(lambda n: n % 2, pairs_of, window_size_func=lambda key: key + 1),
            [(0, [0]), (0, [2]), (1, [1, 3]), (0, [4]), (0, [6]), (1, [5])],
        ),
        (
            Dataset.range(1, 6).map(lambda n: np.full(n, n)).bucket_by_sequence_length(len, [3], [2, 3]),
            [[[1, 0], [2, 2]], [[3, 3, 3, 0, 0], [4, 4, 4, 4, 0], [5, 5, 5, 5, 5]]],
        ),
        (
            Dataset.range(6)
            .map(lambda n: (n, np.full(n % 2, n)))
            .bucket_by_sequence_length(lambda n, x: len(x), [1], [2, 2], no_padding=True, drop_remainder=True),
            [([0, 2], [[], []]), ([1, 3], [[1], [3]])],
        ),
        (
            Dataset.choose_from_datasets([Dataset.range(2), Dataset.range(5, 9)], Dataset.range(2).repeat()),
            [0, 5, 1, 6],
        ),
        (
            Dataset.choose_from_datasets([Dataset.range(2), Dataset.range(5, 9)], Dataset.range(2).repeat(), False),
            [0, 5, 1, 6, 7, 8],
        ),
        (Dataset.sample_from_datasets([Dataset.range(3), Dataset.range(9)], [1, 0]), [0, 1, 2]),
    ],
)
async def test_elements_are_those_of_tensorflow(dataset, expected):
    assert await elements(dataset) == expected


async def test_chance_follows_the_weights_and_the_seed_and_changes_from_epoch_to_epoch():
    zeros, ones = Dataset.from_tensors(0).repeat(), Dataset.from_tensors(1).repeat()
    sample = Dataset.sample_from_datasets([zeros, ones], [1, 3], seed=5).take(400)
    first = await elements(sample)
    assert first == await elements(sample)
    assert 260 < sum(first) < 340
    assert first != [plain(element) async for element in sample.iterate(epoch=1)]
    ended = await elements(Dataset.sample_from_datasets([Dataset.range(3), Dataset.range(3, 9)], seed=2))
    assert sorted(ended) == list(range(9))
    assert [number for number in ended if number > 2] == [3, 4, 5, 6, 7, 8]


@pytest.mark.parametrize("initial", [None, [0.9, 0.1]])
async def test_classes_are_as_frequent_as_asked(initial):
    rare = Dataset.range(2000).rejection_resample(lambda n: n % 10 // 9, [0.5, 0.5], initial, seed=3)
    pairs = await elements(rare)
    assert pairs == await elements(rare)
    assert all(label == number % 10 // 9 for label, number in pairs)
    assert 170 < sum(label for label, _ in pairs) <= 200
    assert 330 < len(pairs) < 480


async def test_the_only_element_is_given_and_others_are_refused():
    assert await Dataset.range(7).batch(7).reduce(0, lambda total, batch: batch.sum()) == 21
    assert await Dataset.from_tensors(5).get_single_element() == 5
    for dataset, text in [(Dataset.range(0), "has no element"), (Dataset.counter(), "has more than one element")]:
        with pytest.raises(errors.InvalidArgumentError, match=text):
            await dataset.get_single_element()


@pytest.mark.parametrize(
    ("dataset", "text"),
    [
        (Dataset.range(3).scan(0, lambda total, number: total), "element 0: scan_func returns a state and"),
        (Dataset.range(3).scan(0, lambda total, n: ((n, n), n)), "a state of another structure than initial_state"),
        (Dataset.range(3).enumerate().unique(), "element 0: unique compares single arrays"),
        (Dataset.range(3).take_while(lambda n: 1), "a predicate returns True or False, not 1"),
        (Dataset.range(3).group_by_window(lambda n: 0.5, pairs_of, 2), "a key or a length is an integer, not 0.5"),
        (Dataset.range(3).group_by_window(lambda n: n, lambda key, window: 3, 1), "a dataset is needed, not 3"),
        (
            Dataset.range(3).group_by_window(lambda n: n, pairs_of, window_size_func=lambda key: key - 1),
            "a window has at least one element, not -1",
        ),
        (Dataset.range(3).rejection_resample(lambda n: n, [1, 1]), "element 2: class_func returns a class from 0 to 1"),
        (Dataset.range(3).rejection_resample(lambda n: 0.5, [1, 1]), "class_func returns an integer, not 0.5"),
        (Dataset.range(3).bucket_by_sequence_length(lambda n: "x", [1], [1, 1]), "is an integer, not 'x'"),
        (
            Dataset.choose_from_datasets([Dataset.range(3)], Dataset.range(3)),
            "element 1: a choice is an integer from 0 to 0, not np.int64(1)",
        ),
    ],
)
async def test_errors_name_the_stage_the_line_and_the_element(dataset, text):
    with pytest.raises(errors.OpError, match=re.escape(text)) as raised:
        await elements(dataset)
    assert raised.value.op == dataset.stage.name
    assert "test_grouping.py" in raised.value.line


def test_wrong_arguments_are_refused_at_once():
    numbers = Dataset.range(3)
    for call, error, text in [
        (lambda: numbers.group_by_window(len, pairs_of), ValueError, "either window_size or window_size_func"),
        (lambda: numbers.group_by_window(len, pairs_of, 0), ValueError, "window_size must be at least 1"),
        (lambda: numbers.bucket_by_sequence_length(len, [2, 1], [1, 1, 1]), ValueError, "rise from one to the next"),
        (lambda: numbers.bucket_by_sequence_length(len, [1, 2], [1, 1]), ValueError, "has 3 positive numbers"),
        (lambda: Dataset.sample_from_datasets([numbers], [1, 2]), ValueError, "2 weights for 1 datasets"),
        (lambda: Dataset.sample_from_datasets([numbers], [-1]), ValueError, "numbers from 0 on"),
        (lambda: Dataset.sample_from_datasets(numbers), TypeError, "a list of datasets"),
        (lambda: Dataset.choose_from_datasets([], numbers), ValueError, "at least one dataset"),
        (lambda: numbers.rejection_resample(len, [1, 1], [1]), ValueError, "1 weights for 2 classes"),
        (lambda: numbers.scan(0, 3), TypeError, "scan_func must be a function"),
        (lambda: Dataset.counter("1"), TypeError, "start must be an integer"),
    ]:
        with pytest.raises(error, match=text):
            call()


async def test_an_async_function_may_say_the_length_of_an_element():
    async def length(x):
        return len(x)

    dataset = Dataset.range(4).map(lambda x: np.zeros(int(x))).bucket_by_sequence_length(length, [2], [2, 2])
    assert [batch.shape async for batch in dataset] == [(2, 1), (2, 3)]
