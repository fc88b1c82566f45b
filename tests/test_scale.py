"""How much of the cases a short run tries."""

import itertools
from types import SimpleNamespace

import pytest

from tests.support import scale


@pytest.mark.parametrize("sizes", [(1, 1), (1, 4), (4, 1), (3, 4), (4, 3)])
def test_each_item_and_each_of_the_others_is_in_a_pair_and_in_a_long_run_all_pairs_are(monkeypatch, sizes):
    items, others = [list(range(size)) for size in sizes]
    monkeypatch.setattr(scale, "LONG", False)
    short = scale.pairs(items, others)
    assert ({item for item, _ in short}, {other for _, other in short}) == (set(items), set(others))
    assert len(short) == max(sizes)
    monkeypatch.setattr(scale, "LONG", True)
    assert scale.pairs(items, others) == list(itertools.product(items, others))


@pytest.mark.parametrize("sizes", [(1,), (7,), (3, 4), (4, 3), (5, 2, 2)])
def test_few_cases_cover_each_value_of_each_parameter(sizes):
    cases = {values: values for values in itertools.product(*map(range, sizes))}
    chosen = list(scale.covering(cases))
    assert len(chosen) == max(sizes)
    for place, size in enumerate(sizes):
        assert {values[place] for values in chosen} == set(range(size))


def test_all_rows_of_a_table_and_a_test_without_parameters_are_tried():
    assert list(scale.covering({"row 0": [0], "row 1": [1], "row 2": [2]})) == ["row 0", "row 1", "row 2"]
    assert list(scale.covering({"alone": []})) == ["alone"]


class Item:
    """A test of pytest with two parameters that are given together, one that is given alone, and one by a fixture."""

    def __init__(self, left, right, number, session, test="test"):
        self.row, self.number, self.session = (left, right), number, session
        self.nodeid = f"tests/test_of_items.py::{test}[{left}-{right}-{number}-{session}]"
        params = {"left": left, "right": right, "number": number, "session": session}
        self.callspec = SimpleNamespace(params=params)

    def iter_markers(self, name):
        return [pytest.mark.parametrize(("left", "right"), []).mark, pytest.mark.parametrize("number", []).mark]

    def get_closest_marker(self, name):
        return name == {2: "long", 3: "whole"}.get(self.number)


def test_of_many_cases_a_short_run_tries_some_at_equal_distances_and_another_test_others():
    chosen = {}
    for name in ("first", "second", "third"):
        items = [Item(row, row, 0, "regions", name) for row in range(100)]
        chosen[name] = sorted(item.row[0] for item in scale.short(items))
        assert len(chosen[name]) == scale.MOST
        distances = {after - before for before, after in itertools.pairwise(chosen[name])}
        assert distances <= {100 // scale.MOST, 100 // scale.MOST + 1}
        assert len(scale.short(items[:21])) == scale.MOST
    assert len({tuple(rows) for rows in chosen.values()}) > 1


def test_a_short_run_tries_each_row_and_each_value_but_no_case_that_is_long():
    rows, sessions = [(0, 0), (0, 1), (1, 0), (1, 1)], ["regions", "tokens"]
    items = [Item(*row, number, session) for row in rows for number in range(3) for session in sessions]
    chosen = scale.short(items)
    assert len(chosen) == len(rows)
    assert {item.row for item in chosen} == set(rows)
    assert {item.number for item in chosen} == {0, 1}
    assert {item.session for item in chosen} == set(sessions)


def test_a_test_that_is_whole_keeps_all_cases():
    items = [Item(row, 0, 3, "regions") for row in range(100)]
    assert scale.short(items) == set(items)
