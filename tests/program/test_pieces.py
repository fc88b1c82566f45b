"""Long blocks are compiled in pieces, so that the compiler never holds the interpreter for long."""

import builtins
import re
import types
import weakref

import numpy as np
import pytest

import aioflow as af
from aioflow.program import codegen, pieces
from aioflow.program.blocks import Code, Structured
from tests.support.doubles import light

LENGTH = 450
DATA = np.array([0.3, -2.0], np.float32)
NAMES = re.compile(r"[a-z]\d+|w\[")


@pytest.fixture(autouse=True)
def graph():
    with af.Graph().as_default() as graph:
        yield graph


@pytest.fixture
def sources(monkeypatch):
    """The lines of each source that Python compiles."""
    found = []

    def compiled(text, *parts):
        found.append(text.splitlines())
        return builtins.compile(text, *parts)

    monkeypatch.setattr(codegen, "compile", compiled, raising=False)
    return found


def long(x):
    """Statements one after the other, with a second value that the last of them reads."""
    y = af.exp(-x)
    for number in range(LENGTH // 3):
        x = af.tanh(x) * 1.01 + float(number % 7)
    return x + y


def alone(x):
    return long(x)


def looped(x):
    return af.while_loop(lambda i, _: i < 3, lambda i, y: (i + 1, long(y)), [0, x])[1]


def branched(x):
    return af.cond(x[0] > 0.0, lambda: long(x), lambda: long(-x))


def many_loops(x):
    for _ in range(40):
        x = af.while_loop(lambda i, _: i < 2, lambda i, y: (i + 1, af.tanh(y) * 1.5), [0, x])[1]
    return x


def derived(x):
    (dx,) = af.gradients(alone(x), [x])
    return dx


def slope_of_a_loop(x):
    return af.gradients(looped(x), [x])[0]


def curvature_of_a_loop(x):
    return af.gradients(slope_of_a_loop(x), [x])[0]


def slope_of_loops_in_a_loop(x):
    return af.gradients(af.while_loop(lambda i, _: i < 2, lambda i, y: (i + 1, looped(y)), [0, x])[1], [x])[0]


def slope_of_a_loop_that_swaps(x):
    return af.gradients(
        af.while_loop(lambda i, _: i < 3, lambda i, y: (i + 1, long(y)), [0, x], swap_memory=True)[1], [x]
    )[0]


def slopes_of_a_loop_twice(x):
    """No loop is the only reader of the records."""
    y = looped(x)
    return af.gradients(y, [x])[0] + af.gradients(y * y, [x])[0]


def wide(x):
    """Many values from one piece to another."""
    return af.while_loop(lambda i, _: i < 2, lambda i, y: (i + 1, sum([y * float(n) for n in range(300)])), [0, x])[1]


def many_parts(x):
    """One kernel with many results, of which some are not read, and one with many inputs."""
    parts = af.unstack(af.tile(af.reshape(x, [1, 2]), [700, 1]))
    return af.add_n([part * 2.0 for part in parts[:600]]) + af.stack([part[0] for part in parts[:600:2]])[:2]


def many_variables(x):
    """A loop that swaps its variables, with more of them than have names of their own."""
    starts = [x * float(n) for n in range(200)]
    results = af.while_loop(lambda i, *_: i < 3, lambda i, first, *rest: (i + 1, *rest, first * 1.5), [0, *starts])
    return af.stack(results[1:])


def many_captured(x):
    many = [af.tanh(x * float(n)) for n in range(200)]
    return af.while_loop(lambda i, _: i < 3, lambda i, y: (i + 1, y + af.add_n([y * each for each in many])), [0, x])[1]


def slopes_of_many_captured(x):
    many = [af.tanh(x * float(n)) for n in range(60)]
    y = af.while_loop(lambda i, _: i < 3, lambda i, y: (i + 1, y + af.add_n([y * each for each in many])), [0, x])[1]
    return af.stack(af.gradients(y, [x, *many]))


def branch_with_many_results(x):
    many = [x * float(n) for n in range(200)]
    sides = [lambda: [af.tanh(each) for each in many], lambda: [af.sin(each) for each in many]]
    return af.stack(af.cond(x[0] > 0.0, *sides))


def many_scalars(x):
    total, parts = x[0], af.unstack(af.tile(x, [150]))
    for number, part in enumerate(parts):
        total = total * 0.5 + part * float(number)
    return total


def many_updates(x):
    for number in range(200):
        x = af.tensor_scatter_nd_add(x * 1.0, [[number % 2]], [1.0])
    return x


WIDE = [
    many_parts,
    many_variables,
    many_captured,
    slopes_of_many_captured,
    branch_with_many_results,
    many_scalars,
    many_updates,
]
SLOPES = [
    slope_of_a_loop,
    pytest.param(curvature_of_a_loop, marks=pytest.mark.long),
    slope_of_loops_in_a_loop,
    slope_of_a_loop_that_swaps,
    slopes_of_a_loop_twice,
]


@pytest.mark.parametrize(
    "program", [alone, looped, branched, many_loops, derived, wide, *WIDE, *SLOPES], ids=lambda each: each.__name__
)
async def test_python_never_compiles_much_at_once_and_the_values_are_those_of_single_nodes(graph, sources, program):
    x = af.placeholder(af.float32, [2])
    result, found = program(x), []
    for executor in ("regions", "tokens"):
        async with af.Session(graph=graph, config=af.Config(executor=executor)) as session:
            found.append([await session.run(result, {x: sign * DATA}) for sign in (1, -1)])
    np.testing.assert_array_equal(*found, strict=True)
    assert len(sources) > 3
    assert max(map(len, sources)) < 4 * pieces.LONGEST  # on a compute thread, three lines for each statement
    assert max(len(NAMES.findall("\n".join(lines))) for lines in sources) < 20 * pieces.LONGEST


def test_a_block_of_one_long_branch_without_results_stays_as_it_is():
    """Division ends, though the block has no values that pieces could share."""
    node = types.SimpleNamespace(inputs=(), output_specs=(), attrs={}, seconds=0.0)
    statement = types.SimpleNamespace(inputs=(), results=(), nodes=())
    branch = Structured(node, (Code([statement] * 2 * int(pieces.LONGEST), (), ()),))
    assert pieces.in_pieces([branch], (), ()) == ([branch], [])


async def test_short_blocks_are_one_source(graph, sources):
    x = y = af.placeholder(af.float32, [2])
    for _ in range(20):
        y = af.tanh(y)
    async with af.Session(graph=graph) as session:
        await session.run(y, {x: DATA})
    assert len(sources) == 1


async def test_pieces_use_the_variables_of_their_own_session(graph):
    x = af.placeholder(af.float32, [2])
    v = af.Variable([0.0, 0.0])
    added = v.assign_add(long(x))
    init = af.global_variables_initializer()
    async with af.Session(graph=graph) as one, af.Session(graph=graph) as other:
        for session in (one, other):
            await session.run(init)
        first = await one.run(added, {x: DATA})
        assert not np.array_equal(await one.run(added, {x: DATA}), first)
        np.testing.assert_array_equal(await other.run(added, {x: DATA}), first)


async def test_an_error_in_a_piece_of_a_loop_names_its_node_its_shapes_and_the_iteration(graph):
    x = af.placeholder(af.int32, [])
    table = af.constant([1, 2, 3])

    def body(i, y):
        for _ in range(LENGTH):
            y = y + 1 - 1
        return i + 1, af.gather(table, y + i, name="lookup") * 0 + y

    result = af.while_loop(lambda i, _: i < 9, body, [0, x], name="outer")[1]
    async with af.Session(graph=graph) as session:
        with pytest.raises(af.errors.InvalidArgumentError) as caught:
            await session.run(result, {x: 1})
    assert caught.value.op == "outer/body/lookup"
    assert caught.value.shapes == ("int32[3]", "int32[]")
    assert __file__ in caught.value.line
    assert any("in iteration 2 of 'outer'" in note for note in caught.value.__notes__)


async def test_a_value_is_freed_after_its_last_reader_in_a_piece(graph):
    made, alive = [], []

    def note(value):
        result = value + 1.0
        made.append(weakref.ref(result))
        alive.append(sum(ref() is not None for ref in made))
        return result

    x = y = af.placeholder(af.float32, [2])
    for _ in range(LENGTH):
        y = light(y, note)
    async with af.Session(graph=graph) as session:
        np.testing.assert_array_equal(await session.run(y, {x: DATA}), DATA + LENGTH)
    assert max(alive) == 2
