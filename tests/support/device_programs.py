"""Random programs whose branches and loops, in each other too, go from device to device and neither wait nor change."""

import dataclasses
from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

import aioflow as af


@dataclasses.dataclass(frozen=True)
class Mix:
    """A new value from two others, made on a device."""

    device: int
    first: int
    second: int


@dataclasses.dataclass(frozen=True)
class Branch:
    """A new value from one of two blocks; a device decides by a value."""

    device: int
    test: int
    yes: tuple[Any, ...]
    no: tuple[Any, ...]


@dataclasses.dataclass(frozen=True)
class Loop:
    """A new value from a block that runs so often, unless the value grows first. The value has a home."""

    device: int
    home: int
    start: int
    times: int
    body: tuple[Any, ...]


def programs(devices: int, deepest: int = 3) -> st.SearchStrategy[tuple[Any, ...]]:
    """Programs over that many devices."""
    device, value = st.integers(0, devices - 1), st.integers(0, 5)
    mix = st.builds(Mix, device, value, value)
    block: st.SearchStrategy[Any] = st.lists(mix, min_size=1, max_size=2).map(tuple)
    for _ in range(deepest):
        branch = st.builds(Branch, device, value, block, block)
        loop = st.builds(Loop, device, device, value, value, block)
        block = st.lists(st.one_of(mix, branch, loop), min_size=1, max_size=3).map(tuple)
    return block


def branches_of_loops(devices: int) -> st.SearchStrategy[tuple[Any, ...]]:
    """Programs of branches at the root, in which there are loops."""
    device, value = st.integers(0, devices - 1), st.integers(0, 5)
    mix = st.builds(Mix, device, value, value)
    loop = st.builds(Loop, device, device, value, value, programs(devices, deepest=1))
    block = st.lists(st.one_of(mix, loop), min_size=1, max_size=2).map(tuple)
    return st.lists(st.builds(Branch, device, value, block, block) | mix, min_size=1, max_size=2).map(tuple)


def built(program: Sequence[Any], start: Any, places: Sequence[str]) -> list[Any]:
    """The values of a program, as tensors."""
    values = [start]
    for statement in program:
        values.append(_value(statement, values, places))
    return values[1:]


def _value(statement: Any, values: list[Any], places: Sequence[str]) -> Any:
    def last(block: Sequence[Any], x: Any) -> Any:
        inner = [*values, x]
        for each in block:
            inner.append(_value(each, inner, places))
        return inner[-1]

    if isinstance(statement, Mix):
        with af.device(places[statement.device]):
            return _chosen(values, statement.first) * 0.5 - _chosen(values, statement.second)
    if isinstance(statement, Branch):
        x = _chosen(values, statement.test)
        with af.device(places[statement.device]):
            test = af.reduce_sum(x) > 0.25
        return af.cond(test, lambda: last(statement.yes, x), lambda: last(statement.no, x))
    start = _chosen(values, statement.start)

    def goes_on(i: Any, x: Any) -> Any:
        with af.device(places[statement.device]):
            return af.logical_and(i < statement.times, af.reduce_sum(x) < 50.0)

    def body(i: Any, x: Any) -> list[Any]:
        made = last(statement.body, x)
        with af.device(places[statement.home]):
            return [i + 1, af.identity(made)]

    with af.device(places[statement.home]):
        return af.while_loop(goes_on, body, [af.constant(0), af.identity(start)])[1]


def _chosen(values: list[Any], number: int) -> Any:
    return values[number % len(values)]
