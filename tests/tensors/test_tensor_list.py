"""TensorList: every version stays what it was, whatever becomes of the others."""

import threading
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aioflow.tensors.dtypes import resource, spec_of
from aioflow.tensors.tensor_list import CLEARED, UNWRITTEN, TensorList

places = st.integers(0, 6)
changes = st.one_of(
    st.tuples(st.just("write"), places),
    st.tuples(st.just("write_all"), st.sets(places, max_size=4)),
    st.tuples(st.just("add_at"), places),
    st.tuples(st.just("clear"), st.sets(places, max_size=3)),
    st.tuples(st.just("append"), st.none()),
    st.tuples(st.just("pop"), st.none()),
    st.tuples(st.just("grow"), places),
    st.tuples(st.just("+"), places),
    st.tuples(st.just("of"), st.none()),
)


def put(model, slots):
    longer = [*model, *[UNWRITTEN] * (max(slots, default=-1) + 1 - len(model))]
    return tuple(slots.get(place, item) for place, item in enumerate(longer))


def added(held, item):
    return item if held in (UNWRITTEN, CLEARED) else item if held is None else held + item


def modelled(model, change, argument, number, other):
    """The list of the model after the change, or the error."""
    match change:
        case "write" | "write_all":
            slots = {place: number + place for place in (argument if change == "write_all" else {argument})}
            if any(place < len(model) and model[place] is not UNWRITTEN for place in slots):
                return ValueError
            return put(model, slots)
        case "add_at":
            held = model[argument] if argument < len(model) else UNWRITTEN
            return put(model, {argument: added(held, number)})
        case "clear":
            if any(place >= len(model) for place in argument):
                return IndexError
            return put(model, {place: CLEARED for place in argument if model[place] is not UNWRITTEN})
        case "append":
            return (*model, number)
        case "pop":
            return model[:-1] if model else IndexError
        case "grow":
            return put(model, {}) if argument <= len(model) else put(model, {argument - 1: UNWRITTEN})
        case "+":
            longer, both = max(len(model), len(other)), []
            for place in range(longer):
                a = model[place] if place < len(model) else UNWRITTEN
                b = other[place] if place < len(other) else UNWRITTEN
                gaps = [item for item in (a, b) if item in (UNWRITTEN, CLEARED)]
                both.append(a + b if not gaps else (b if a in gaps else a) if len(gaps) == 1 else gaps)
            return tuple(both)
        case "of":
            return model


def performed(version, change, argument, number, other):
    match change:
        case "write":
            return version.write(argument, number + argument)
        case "write_all":
            return version.write_all({place: number + place for place in argument})
        case "add_at":
            return version.add_at(argument, number)
        case "append":
            return version.append(number)
        case "pop":
            return version.pop()[1]
        case "+":
            return version + other
        case "of":
            return TensorList.of(version.elements())
        case _:
            return getattr(version, change)(argument)


def agrees(version, model):
    """In a slot where both lists of a sum have a gap, either gap may be left."""
    items = version.elements()
    assert len(version) == len(items) == len(model)
    for place, (item, expected) in enumerate(zip(items, model, strict=True)):
        assert item in expected if isinstance(expected, list) else item == expected
        assert version.item(place) is item
    assert version.written() == {i: item for i, item in enumerate(items) if item not in (UNWRITTEN, CLEARED)}
    assert version.example() in {None, *version.written().values()}


@given(st.lists(st.tuples(changes, st.integers(0, 50), st.integers(0, 50)), max_size=60))
def test_any_version_agrees_with_a_tuple_after_any_changes_of_any_versions(steps):
    versions, models = [TensorList(3)], [(UNWRITTEN,) * 3]
    for number, ((change, argument), which, second) in enumerate(steps):
        place, other = max(len(versions) - 1 - which, 0), max(len(versions) - 1 - second, 0)  # mostly the newest
        expected = modelled(models[place], change, argument, 100 * number, models[other])
        if isinstance(expected, type):
            with pytest.raises(expected):
                performed(versions[place], change, argument, 100 * number, versions[other])
            continue
        made = performed(versions[place], change, argument, 100 * number, versions[other])
        versions.append(made)
        models.append(tuple(made.elements()) if any(isinstance(item, list) for item in expected) else expected)
        agrees(made, expected)
    for version, model in zip(versions, models, strict=True):
        agrees(version, model)


@pytest.mark.parametrize(
    ("change", "kind", "text"),
    [
        (lambda items: items.item(3), IndexError, "index 3 is out of range for size 3"),
        (lambda items: items.item(-1), IndexError, "index -1 is out of range for size 3"),
        (lambda items: items.write(-1, 0), IndexError, "index -1 is negative"),
        (lambda items: items.write(1, 0), ValueError, "index 1 is written already"),
        (lambda items: items.clear([1]).write(1, 0), ValueError, "index 1 is cleared after it was read"),
        (lambda items: items.clear([3]), IndexError, "index 3 is out of range for size 3"),
        (lambda items: items.add_all({0: 1, -2: 1}), IndexError, "index -2 is negative"),
        (lambda items: TensorList().pop(), IndexError, "index -1 is out of range for size 0"),
    ],
)
def test_a_change_that_cannot_be_leaves_the_list_as_it_was(change, kind, text):
    items = TensorList(3).write(1, 5)
    with pytest.raises(kind, match=text):
        change(items)
    assert items.elements() == [UNWRITTEN, 5, UNWRITTEN]


def test_lists_of_lists_are_added_slot_by_slot():
    inner = TensorList().write(2, 1.0)
    total = TensorList().append(inner) + TensorList().append(inner).append(inner)
    assert [item.written() for item in total.elements()] == [{2: 2.0}, {2: 1.0}]
    with pytest.raises(TypeError):
        inner + 1


def test_a_list_is_no_array_to_those_who_ask():
    items = TensorList(4)
    assert spec_of(items).dtype is resource
    assert items
    assert not hasattr(items, "size")
    assert repr(items.write(1, 0)) == "<TensorList of 4, 1 written>"


def test_a_list_made_of_a_python_list_takes_it_over_and_gives_a_new_one():
    items = [1, 2]
    version = TensorList.of(items)
    assert version.elements() == items
    assert version.elements() is not items
    assert version.append(3).elements() == [1, 2, 3]
    assert version.elements() == [1, 2]


def elapsed(function):
    start = time.process_time()
    function()
    return time.process_time() - start


def grown(length, change):
    version = TensorList(length)
    for number in range(length):
        version = change(version, number)
    return version


@pytest.mark.parametrize(
    "change",
    [
        lambda version, number: version.append(number),
        lambda version, number: version.write(number, number),
        lambda version, number: version + TensorList().add_at(len(version) - number, 1.0),
    ],
)
def test_n_changes_take_time_in_proportion_to_n(change):
    short = min(elapsed(lambda: grown(1000, change)) for _ in range(3))
    assert elapsed(lambda: grown(8000, change)) < 8 * 10 * short


def test_gaps_cost_nothing():
    far = TensorList(10**12).write(10**12 - 1, 7) + TensorList(10**12).write(5, 8)
    assert far.written() == {5: 8, 10**12 - 1: 7}


def test_a_chain_of_many_versions_is_let_go_of_without_recursion():
    oldest = version = TensorList().append(0)
    for number in range(30_000):
        version = version.append(number)
    del version
    assert oldest.elements() == [0]
    oldest = version = TensorList().append(0)
    for number in range(30_000):
        version = version.append(number)
    del version, oldest


@pytest.mark.real
def test_threads_that_change_one_version_each_get_their_own():
    start = TensorList().append(0)
    found = {}

    def work(name):
        version = start
        for number in range(300):
            version = version.append((name, number))
            assert start.item(0) == 0
        found[name] = version

    threads = [threading.Thread(target=work, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for name, version in found.items():
        assert version.elements() == [0, *[(name, number) for number in range(300)]]
    assert start.elements() == [0]


def test_arrays_in_gradient_lists_are_added_into_new_ones():
    one = np.ones(2)
    items = TensorList().add_at(0, one)
    np.testing.assert_array_equal(items.add_at(0, one).item(0), [2, 2])
    np.testing.assert_array_equal(one, [1, 1])
