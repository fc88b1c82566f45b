"""How much is tried: `make test` tries a part of each kind, `make test-long`, which sets AIOFLOW_LONG=1, tries all.

A test that has no short form is marked `long`, and so are single cases: `pytest.param(..., marks=pytest.mark.long)`.
Of the cases of a test a short run tries as few as have each value of each parameter, and of these at most `MOST`,
unless the test is marked `whole`.
"""

import itertools
import math
import os
import zlib
from collections import Counter, defaultdict

LONG = os.environ.get("AIOFLOW_LONG", "0") != "0"
MOST = 8
"""The most cases of a test in a short run."""


def amount(short, long, variable=None):
    """The number of tries in a short run, or in a long one. The environment variable of that name overrides both."""
    chosen = long if LONG else short
    return int(os.environ.get(variable, chosen)) if variable else chosen


def some(items, most):
    """All items in a long run, and in a short one at most `most`, at equal distances."""
    items = list(items)
    return items if LONG else items[:: max(1, math.ceil(len(items) / most))]


def pairs(items, others):
    """All pairs in a long run, and in a short one as few as have each item and each of the others."""
    if LONG:
        return list(itertools.product(items, others))
    count = max(len(items), len(others))
    return [(items[number % len(items)], others[number % len(others)]) for number in range(count)]


def covering(cases):
    """Of the cases, {case: its values}, as few as have each value of each parameter, by a fixed rule.

    The next case is always the first of those with the most values that no case had before, and of these one whose
    values were tried the least: 3 dtypes by 4 shapes are 4 cases, each shape with another dtype than the one before.
    """
    left, tried = {case: set(enumerate(values)) for case, values in cases.items()}, Counter()
    while left:
        case = min(left, key=lambda case: _novelty(left[case], tried))
        values = left.pop(case)
        if tried and all(tried[value] for value in values):
            return
        tried.update(values)
        yield case


def _novelty(values, tried):
    return -sum(not tried[value] for value in values), sum(tried[value] for value in values)


def short(items):
    """The tests of pytest, a set, that a short run tries."""
    chosen, cases = set(), defaultdict(dict)
    for item in items:
        if item.get_closest_marker("long"):
            continue
        if item.get_closest_marker("whole"):
            chosen.add(item)
        else:
            cases[item.nodeid.partition("[")[0]][item] = _values(item)
    for test, values in cases.items():
        chosen.update(_spread(list(covering(values)), zlib.crc32(test.encode())))
    return chosen


def _spread(items, number):
    """At most `MOST`, at equal distances; the number decides which: each law of many ops tries others than the next."""
    count = min(len(items), MOST)
    return [items[(number + len(items) * index // count) % len(items)] for index in range(count)]


def _values(item):
    """What the case has of each parameter of its test. Parameters that are given together are one."""
    left = dict(item.callspec.params) if hasattr(item, "callspec") else {}
    together = [mark.args[0] for mark in item.iter_markers("parametrize")]
    named = [names.replace(" ", "").split(",") if isinstance(names, str) else names for names in together]
    rows = [tuple(id(left.pop(name)) for name in names) for names in named]
    return [*rows, *map(id, left.values())]
