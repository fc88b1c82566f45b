"""Random programs with branches, loops, state and lists, for two machines: Python itself, and a graph.

A program is a tree of statements. What one means is written once, in `run`, in terms of a machine: `Plain` computes
with NumPy and Python's own `if` and `while`, `Built` adds operations to the default graph. Plain's numbers are power
series in one direction, so it knows derivatives of any order as well.
"""

import asyncio
import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import strategies as st

import aioflow as af
from tests.support.doubles import waiting

WIDTH = 2
ROWS = 4
STATES = 2
UNARY = ("sin", "tanh", "negative")
BINARY = ("add", "multiply", "subtract")
UPDATES = ("assign", "assign_add", "assign_sub")
ELEMENT = 0.4
MANY = 5000
"""More elements than a program takes of its queue."""


# Programs: numbers refer to values around, counted from the newest, round and round


@dataclass(frozen=True)
class Constant:
    value: float


@dataclass(frozen=True)
class Unary:
    name: str
    x: int


@dataclass(frozen=True)
class Binary:
    name: str
    x: int
    y: int


@dataclass(frozen=True)
class Number:
    """A float made of an integer, a loop's counter."""

    i: int


@dataclass(frozen=True)
class Slope:
    """The gradient of a loop that applies sin(x) * y twice, with respect to x."""

    x: int
    y: int


@dataclass(frozen=True)
class Wait:
    """The same value, later."""

    x: int


@dataclass(frozen=True)
class Take:
    """An element of a queue. All of its elements are alike."""


@dataclass(frozen=True)
class Read:
    state: int


@dataclass(frozen=True)
class Update:
    name: str
    state: int
    x: int


@dataclass(frozen=True)
class Test:
    """Whether a float's sum is below a bound; without one, whether an integer is even."""

    x: int
    bound: float | None


@dataclass(frozen=True)
class Block:
    """Statements, what they give, and which of that waits for all their effects."""

    statements: tuple[Any, ...]
    results: tuple[int, ...]
    last: int = 0


@dataclass(frozen=True)
class Branch:
    test: Test
    then: Block
    otherwise: Block


@dataclass(frozen=True)
class Loop:
    """A loop of at most `count` iterations, or as many as an integer around says.

    `body` is given the rows of an array one by one if it `reads`; its first result is written to one if it `writes`.
    """

    starts: tuple[int, ...]
    body: Block
    count: int | None
    i: int
    bound: float | None
    maximum: int | None
    parallel: int
    reads: bool
    writes: bool


def has_effects(part: Any) -> bool:
    """Whether it updates state."""
    match part:
        case Update():
            return True
        case Block(statements):
            return any(map(has_effects, statements))
        case Branch(_, then, otherwise):
            return has_effects(then) or has_effects(otherwise)
        case Loop():
            return has_effects(part.body)
    return False


# What they mean


@dataclass
class Scope:
    """The values that can be used somewhere, and what has had an effect there."""

    floats: list[Any]
    ints: list[Any]
    effects: list[Any] = field(default_factory=list)

    def inner(self, floats: Sequence[Any] = (), ints: Sequence[Any] = ()) -> "Scope":
        return Scope([*self.floats, *floats], [*self.ints, *ints])

    def float(self, number: int) -> Any:
        return self.floats[-1 - number % len(self.floats)]

    def int(self, number: int) -> Any:
        return self.ints[-1 - number % len(self.ints)]


def run(block: Block, scope: Scope, machine: Any) -> list[Any]:
    """Carry out a block; returns its results."""
    for statement in block.statements:
        _step(statement, scope, machine)
    results = [scope.float(number) for number in block.results]
    if scope.effects and results:
        last = block.last % len(results)
        results[last] = machine.after(scope.effects, results[last])
    return results


def _step(statement: Any, scope: Scope, machine: Any) -> None:
    match statement:
        case Constant(value):
            scope.floats.append(machine.constant(value))
        case Unary(name, x):
            scope.floats.append(machine.unary(name, scope.float(x)))
        case Binary(name, x, y):
            scope.floats.append(machine.binary(name, scope.float(x), scope.float(y)))
        case Number(i):
            scope.floats.append(machine.number(scope.int(i)))
        case Slope(x, y):
            scope.floats.append(machine.slope(scope.float(x), scope.float(y)))
        case Wait(x):
            scope.floats.append(machine.wait(scope.float(x)))
        case Take():
            scope.floats.append(machine.take())
        case Read(state):
            scope.floats.append(machine.read(state))
        case Update(name, state, x):
            scope.floats.append(machine.update(name, state, scope.float(x)))
        case Branch():
            scope.floats += _branch(statement, scope, machine)
        case Loop():
            _loop(statement, scope, machine)
    if has_effects(statement):
        scope.effects.append(scope.floats[-1])


def _branch(branch: Branch, scope: Scope, machine: Any) -> list[Any]:
    bound = branch.test.bound
    test = machine.even(scope.int(branch.test.x)) if bound is None else machine.below(scope.float(branch.test.x), bound)
    return machine.branch(
        test, lambda: run(branch.then, scope.inner(), machine), lambda: run(branch.otherwise, scope.inner(), machine)
    )


def _loop(loop: Loop, scope: Scope, machine: Any) -> None:
    count = machine.few(scope.int(loop.i)) if loop.count is None else machine.integer(loop.count)
    rows = machine.rows([scope.float(0), scope.float(1)] * (ROWS // 2)) if loop.reads else None
    written = [machine.empty()] if loop.writes else []

    def more(i: Any, x: Any, *_: Any) -> Any:
        test = machine.less(i, count)
        return test if loop.bound is None else machine.both(test, machine.below(x, loop.bound))

    def body(i: Any, *values: Any) -> list[Any]:
        floats, arrays = values[: len(loop.starts)], values[len(loop.starts) :]
        row = [] if rows is None else [machine.row(rows, i)]
        results = run(loop.body, scope.inner([*floats, *row], [i]), machine)
        calm = [machine.unary("tanh", result) for result in results]
        return [machine.next(i), *calm, *[machine.written(array, i, results[0]) for array in arrays]]

    starts = [machine.integer(0), *[scope.float(number) for number in loop.starts], *written]
    i, *values = machine.loop(more, body, starts, loop.maximum, loop.parallel)
    scope.ints.append(i)
    scope.floats += [machine.total(array) for array in values[len(loop.starts) :]]
    scope.floats += values[: len(loop.starts)]


class Plain:
    """Python's own control flow, over power series: an array of coefficients of the powers of the way t walked."""

    def __init__(self, order: int) -> None:
        self._order = order
        self.states = [np.full(WIDTH, 0.5 * (1 + state)) for state in range(STATES)]

    def series(self, *terms: Any) -> Any:
        made = np.zeros((self._order + 1, WIDTH))
        for power, term in enumerate(terms[: self._order + 1]):
            made[power] = term
        return made

    def constant(self, value: float) -> Any:
        return self.series(value)

    def unary(self, name: str, x: Any) -> Any:
        return {"sin": _sin, "tanh": _tanh, "negative": np.negative}[name](x)

    def binary(self, name: str, x: Any, y: Any) -> Any:
        return {"add": np.add, "subtract": np.subtract, "multiply": _multiply}[name](x, y)

    def number(self, i: int) -> Any:
        return self.series(0.25 * i)

    def slope(self, x: Any, y: Any) -> Any:
        middle = _multiply(_sin(x), y)
        return _multiply(_multiply(_cos(middle), y), _multiply(_cos(x), y))

    def wait(self, x: Any) -> Any:
        return x

    def take(self) -> Any:
        return self.constant(ELEMENT)

    def after(self, effects: Any, x: Any) -> Any:
        return x

    def read(self, state: int) -> Any:
        return self.series(self.states[state])

    def update(self, name: str, state: int, x: Any) -> Any:
        before = self.states[state]
        self.states[state] = {"assign": x[0], "assign_add": before + x[0], "assign_sub": before - x[0]}[name]
        return self.read(state)

    def even(self, i: int) -> bool:
        return i % 2 == 0

    def below(self, x: Any, bound: float) -> bool:
        return bool(np.sum(x[0]) < bound)

    def less(self, i: int, count: int) -> bool:
        return i < count

    def both(self, one: bool, other: bool) -> bool:
        return one and other

    def branch(self, test: bool, then: Callable[[], Any], otherwise: Callable[[], Any]) -> Any:
        return then() if test else otherwise()

    def loop(self, more: Any, body: Any, starts: list[Any], maximum: int | None, parallel: int) -> list[Any]:
        values, done = starts, 0
        while more(*values) and (maximum is None or done < maximum):
            values, done = body(*values), done + 1
        return values

    def integer(self, value: int) -> int:
        return value

    def few(self, i: int) -> int:
        return i % ROWS

    def next(self, i: int) -> int:
        return i + 1

    def rows(self, values: list[Any]) -> list[Any]:
        return values

    def row(self, rows: list[Any], i: int) -> Any:
        return rows[i]

    def empty(self) -> tuple[Any, ...]:
        return (self.series(0.0),) * ROWS

    def written(self, array: tuple[Any, ...], i: int, x: Any) -> tuple[Any, ...]:
        return (*array[:i], x, *array[i + 1 :])

    def total(self, array: tuple[Any, ...]) -> Any:
        return sum((1.0 + row) * values for row, values in enumerate(array))


def _multiply(x: Any, y: Any) -> Any:
    return np.stack([sum(x[i] * y[k - i] for i in range(k + 1)) for k in range(len(x))])


def _sin(x: Any) -> Any:
    sin, cos = np.zeros_like(x), np.zeros_like(x)
    sin[0], cos[0] = np.sin(x[0]), np.cos(x[0])
    for k in range(1, len(x)):
        sin[k] = sum(i * x[i] * cos[k - i] for i in range(1, k + 1)) / k
        cos[k] = -sum(i * x[i] * sin[k - i] for i in range(1, k + 1)) / k
    return sin


def _cos(x: Any) -> Any:
    turned = x.copy()
    turned[0] += math.pi / 2
    return _sin(turned)


def _tanh(x: Any) -> Any:
    made = np.zeros_like(x)
    made[0] = np.tanh(x[0])
    for k in range(1, len(x)):
        slope = -_multiply(made, made)
        slope[0] += 1.0
        made[k] = sum(i * x[i] * slope[k - i] for i in range(1, k + 1)) / k
    return made


async def _later(value: Any) -> Any:
    await asyncio.sleep(float(abs(np.sum(value))) % 1.0)
    return value


class Built:
    """Operations in the default graph."""

    def __init__(self) -> None:
        self.states = [af.Variable(np.full(WIDTH, 0.5 * (1 + state))) for state in range(STATES)]
        self._queue = af.FIFOQueue(MANY, [af.float64], [[WIDTH]])
        self._takes = False

    @property
    def init(self) -> af.Operation:
        """The operation before the first run."""
        filled = [self._queue.enqueue_many(np.full((MANY, WIDTH), ELEMENT))] if self._takes else []
        return af.group(af.global_variables_initializer(), *filled)

    def constant(self, value: float) -> Any:
        return af.constant([value] * WIDTH, af.float64)

    def unary(self, name: str, x: Any) -> Any:
        return getattr(af, name)(x)

    def binary(self, name: str, x: Any, y: Any) -> Any:
        return getattr(af, name)(x, y)

    def number(self, i: Any) -> Any:
        return 0.25 * af.cast(i, af.float64) * self.constant(1.0)

    def slope(self, x: Any, y: Any) -> Any:
        start = af.identity(x)
        made = af.while_loop(lambda i, v: i < 2, lambda i, v: (i + 1, af.sin(v) * y), [0, start])
        return af.gradients(made[1], start)[0]

    def wait(self, x: Any) -> Any:
        return self.after([waiting(x, _later)], x)

    def take(self) -> Any:
        self._takes = True
        return self._queue.dequeue()

    def after(self, effects: Any, x: Any) -> Any:
        with af.control_dependencies(effects):
            return af.identity(x)

    def read(self, state: int) -> Any:
        return self.states[state].read_value()

    def update(self, name: str, state: int, x: Any) -> Any:
        return af.convert_to_tensor(getattr(self.states[state], name)(x))

    def even(self, i: Any) -> Any:
        return af.equal(i % 2, 0)

    def below(self, x: Any, bound: float) -> Any:
        return af.reduce_sum(x) < bound

    def less(self, i: Any, count: Any) -> Any:
        return i < count

    def both(self, one: Any, other: Any) -> Any:
        return af.logical_and(one, other)

    def branch(self, test: Any, then: Callable[[], Any], otherwise: Callable[[], Any]) -> Any:
        return af.cond(test, then, otherwise, strict=True)

    def loop(self, more: Any, body: Any, starts: list[Any], maximum: int | None, parallel: int) -> list[Any]:
        return af.while_loop(more, body, starts, maximum_iterations=maximum, parallel_iterations=parallel)

    def integer(self, value: int) -> Any:
        return af.constant(value)

    def few(self, i: Any) -> Any:
        return i % ROWS

    def next(self, i: Any) -> Any:
        return i + 1

    def rows(self, values: list[Any]) -> Any:
        return af.TensorArray(af.float64, len(values), clear_after_read=False).unstack(af.stack(values))

    def row(self, rows: Any, i: Any) -> Any:
        return rows.read(i)

    def empty(self) -> Any:
        return af.TensorArray(af.float64, ROWS, element_shape=[WIDTH], clear_after_read=False)

    def written(self, array: Any, i: Any, x: Any) -> Any:
        return array.write(i, x)

    def total(self, array: Any) -> Any:
        weights = np.arange(1.0, ROWS + 1.0)[:, None]
        return af.reduce_sum(weights * array.stack(), axis=0)


# Drawing them


_numbers = st.integers(0, 9)
_bounds = st.sampled_from([-0.45, 0.15, 1.05])


@functools.cache
def blocks(depth: int = 3, results: int = 2, size: int = 5, takes: bool = False) -> st.SearchStrategy[Block]:
    """A block, with branches and loops to that depth inside; if it `takes`, it uses a queue."""
    statements = st.lists(_statements(depth, takes), min_size=1, max_size=size).map(tuple)
    return st.builds(Block, statements, st.tuples(*[_numbers] * results), _numbers)


@functools.cache
def _statements(depth: int, takes: bool) -> st.SearchStrategy[Any]:
    simple = [
        st.builds(Constant, st.sampled_from([-0.7, 0.3, 1.1])),
        st.builds(Unary, st.sampled_from(UNARY), _numbers),
        st.builds(Binary, st.sampled_from(BINARY), _numbers, _numbers),
        st.builds(Number, _numbers),
        st.builds(Slope, _numbers, _numbers),
        st.builds(Read, st.integers(0, STATES - 1)),
        st.builds(Update, st.sampled_from(UPDATES), st.integers(0, STATES - 1), _numbers),
        st.builds(Wait, _numbers),
    ]
    if takes:
        simple += [st.just(Take())] * 3
    inside = depth - 1, takes
    return st.one_of(*simple, *([_branches(*inside), _loops(*inside), _loops(*inside)] if depth else []))


def _branches(depth: int, takes: bool) -> st.SearchStrategy[Branch]:
    tests = st.builds(Test, _numbers, st.none() | _bounds)
    pairs = st.sampled_from([1, 2]).flatmap(lambda count: st.tuples(*[blocks(depth, count, 3, takes)] * 2))
    return st.builds(lambda test, pair: Branch(test, *pair), tests, pairs)


def _loops(depth: int, takes: bool) -> st.SearchStrategy[Loop]:
    starts = st.sampled_from([1, 2, 3]).flatmap(
        lambda count: st.tuples(st.tuples(*[_numbers] * count), blocks(depth, count, 3, takes))
    )
    return st.builds(
        lambda pair, *rest: Loop(*pair, *rest),
        starts,
        st.none() | st.integers(0, ROWS),
        _numbers,
        st.none() | _bounds,
        st.none() | st.integers(0, 2),
        st.sampled_from([1, 2, 10]),
        st.booleans(),
        st.booleans(),
    )


# Running them


@dataclass
class Outcome:
    """What a program came to: its results, its state afterwards, and derivatives of the sum of the results."""

    results: list[Any]
    states: list[Any]
    derivatives: list[Any]


START = [0.3, -0.8]
WAY = [0.6, 1.1]


def interpreted(program: Block, order: int) -> Outcome:
    """As Python computes it."""
    machine = Plain(order)
    results = run(program, Scope([machine.series(START, WAY), machine.series(0.5)], [1]), machine)
    total = sum(np.sum(result, axis=-1) for result in results)
    derivatives = [math.factorial(power) * total[power] for power in range(1, order + 1)]
    return Outcome([result[0] for result in results], machine.states, derivatives)


@dataclass
class BuiltProgram:
    """A program as a graph."""

    graph: af.Graph
    x: af.Tensor
    results: list[af.Tensor]
    derivatives: list[af.Tensor]
    states: list[Any]
    init: af.Operation


def built(program: Block, order: int, device: Callable[[af.Operation], str] | None = None) -> BuiltProgram:
    """As a graph, with the derivatives along the same way; each operation asks for what `device` says."""
    with af.Graph().as_default() as graph, graph.device(device):
        machine = Built()
        x = af.placeholder(af.float64, [WIDTH])
        results = run(program, Scope([x, machine.constant(0.5)], [af.constant(1)]), machine)
        total, derivatives = sum(af.reduce_sum(result) for result in results), []
        for _ in range(order):
            total = af.reduce_sum(af.gradients(total, x, unconnected_gradients="zero")[0] * WAY)
            derivatives.append(total)
        return BuiltProgram(graph, x, results, derivatives, machine.states, machine.init)


async def computed(program: BuiltProgram, config: af.Config) -> Outcome:
    """As a session computes it."""
    async with af.Session(graph=program.graph, config=config) as session:
        await session.run(program.init)
        results, derivatives = await session.run([program.results, program.derivatives], {program.x: START})
        return Outcome(results, await session.run([state.read_value() for state in program.states]), derivatives)
