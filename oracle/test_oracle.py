"""What holds for every line of the table."""

import fnmatch
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from aioflow.graph.op import REGISTRY
from aioflow.lazy import import_all
from oracle import both, ops
from oracle.draw import Call, Draw
from oracle.table import EXCUSED, LINES, Line

REGISTRY.complete()
import_all(ops.__name__)

pytestmark = [pytest.mark.filterwarnings("default"), pytest.mark.timeout(600)]
MANY = 500
"""So many examples show every difference that is written down: one that they do not show is out of date."""
LABELLED = [pytest.param(line, id=line.path) for line in LINES]


class Seen:
    """What the examples of a line have shown so far."""

    def __init__(self) -> None:
        self.compared = 0
        self.ops: set[str] = set()
        self.differences: set[str] = set()


@pytest.fixture
def examples(request: pytest.FixtureRequest) -> int:
    return int(request.config.getoption("--examples"))


@pytest.mark.parametrize("line", LABELLED)
def test_results_and_gradients_to_second_order_are_tensorflows(line: Line, examples: int) -> None:
    seen = Seen()
    each(line, False, examples, lambda call: agree(line, call, 0, seen))
    assert seen.compared, "TensorFlow took no call"
    for order in (1, 2) if line.gradient is True else ():
        each(line, True, examples // 2, lambda call, order=order: agree(line, call, order, seen))
    assert seen.ops.issuperset(line.ops), f"the calls are made of {sorted(seen.ops)}"
    if examples >= MANY:
        assert [item.reason for item in line.differences if item.reason not in seen.differences] == []


def each(line: Line, tame: bool, examples: int, check: Callable[[Call], None]) -> None:
    """Check examples of the line's calls, the same ones in every run."""

    @settings(
        max_examples=examples,
        derandomize=True,
        database=None,
        deadline=None,
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate, Phase.shrink],
    )
    @given(st.composite(lambda draw: line.inputs(Draw(draw, tame)))())
    def run(call: Call) -> None:
        check(call)

    run()


def agree(line: Line, call: Call, order: int, seen: Seen) -> None:
    """Fail unless both libraries do the same with the call, or it is where they differ on purpose."""
    if order and not any(array.dtype.kind in "fc" for array in call.arrays):
        return
    mine = both.ours(line.call, call, order)
    seen.ops |= mine.ops if isinstance(mine, both.Ran) else set()
    try:
        reference = both.theirs(line.theirs, call, order)
    except both.Refused:
        return
    if order and isinstance(reference, both.Ran) and not reference.values:
        return  # nothing moves
    seen.compared += isinstance(reference, both.Ran)
    rtol = line.rtol * (1 + 3 * order)
    found = told_apart(mine, reference, rtol)
    if found:
        exempt = exemption(line, call, seen)
        if np.ndim(exempt) or not exempt:
            found = told_apart(mine, reference, rtol, exempt)
            assert not found, f"{line.path}({call}), order {order}: {found}"


def exemption(line: Line, call: Call, seen: Seen) -> Any:
    """Whether the call, or which elements of its results, may differ."""
    exempt: Any = np.False_
    for difference in line.differences:
        where = np.asarray(difference.when(*call.arrays, **call.attrs))
        if where.any():
            seen.differences.add(difference.reason)
        exempt = exempt | where
    return exempt


def told_apart(mine: both.Outcome, reference: both.Outcome, rtol: float, exempt: Any = None) -> str | None:
    """How the outcomes differ. Where both find the call wrong they agree, whatever they call it."""
    match mine, reference:
        case both.Ran(), both.Ran():
            return both.mismatch(mine.values, reference.values, rtol, exempt)
        case both.Failed(), both.Failed():
            return None
    return f"it is {mine!r}, TensorFlow's {reference!r}"


def test_every_op_is_compared_or_excused() -> None:
    named = {op for line in LINES for op in line.ops}
    mine = {name for name, op in REGISTRY.items() if op.__module__.startswith("aioflow.")}
    missing = {op for op in mine - named if not any(fnmatch.fnmatchcase(op, pattern) for pattern in EXCUSED)}
    assert sorted(missing) == []
    assert sorted(named - mine) == []
