"""Scalar code: expressions give the bits of kernels, and values stay NumPy scalars on their way through a region."""

import asyncio
import itertools
import re
import warnings

import numpy as np
import pytest

import aioflow as af
from aioflow.graph.op import REGISTRY
from aioflow.kernels.context import Context
from aioflow.plan.passes.flow import Value
from aioflow.plan.passes.prune import prune
from aioflow.program.binder import Binder
from aioflow.program.codegen import Source
from aioflow.program.scalars import DTYPES, NAMES
from aioflow.resources.containers import Resources
from tests.support.scale import amount

REGIONS, TOKENS = af.Config(), af.Config(executor="tokens", optimize=False)
BINARY = [
    *("add", "subtract", "multiply", "divide", "floordiv", "mod", "multiply_no_nan", "xdivy"),
    *("less", "less_equal", "greater", "greater_equal", "equal", "not_equal", "logical_and", "logical_or"),
    *("logical_xor", "bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift"),
]
UNARY = ["negative", "abs", "square", "invert", "logical_not", "identity", "stop_gradient"]
DRAW = np.random.default_rng(5)


def values_of(dtype) -> list[np.generic]:
    """Return the limits of a dtype, what rounds and overflows, and random bits."""
    kind = np.dtype(dtype.np)
    if kind.kind == "b":
        return [np.False_, np.True_]
    if kind.kind == "f":
        known = np.finfo(kind)
        some = [0, 1, 0.5, 3, 1e30, 1e-30, np.inf, known.max, known.tiny, known.smallest_subnormal, known.eps]
        given = [*some, *[-value for value in some], np.nan]
    else:
        limits = np.iinfo(kind)
        given = [0, 1, -1, 2, 3, -7, 31, 32, 63, 64, limits.max, limits.max - 1, limits.min, limits.min + 1, 1 << 16]
    random = DRAW.integers(0, 256, amount(8, 200) * kind.itemsize, np.uint8).view(kind)
    return [*np.array(given, kind), *random]


def bound_node(build, *dtypes):
    """Return the last node of a graph of placeholders of rank 0, bound to its kernel; None if the op refuses them."""
    with af.Graph().as_default():
        inputs = [af.placeholder(dtype, []) for dtype in dtypes]
        try:
            result = build(*inputs)
        except TypeError:
            return None
        flow = prune(inputs, [result], ())
        return Binder(Context(np, Resources(), None)).bind(flow.nodes[-1])


def agree(bound, *values) -> bool:
    """Whether the expression of a bound node gives the bits of its kernel; the payload of a NaN may differ."""
    call = eval(f"lambda a, b=None, c=None: {bound.expression.format(*'abc')}", dict(NAMES))
    got = call(*values)
    try:
        wanted = np.asarray(bound.call(*map(np.asarray, values)))[()]
    except af.errors.InvalidArgumentError:
        return False
    nan = wanted != wanted and got != got
    return type(got) is type(wanted) and (nan or got.tobytes() == wanted.tobytes())


def check(bound, *families) -> None:
    with np.errstate(all="ignore"):
        wrong = [values for values in itertools.product(*families) if not agree(bound, *values)]
    assert not wrong, wrong[:3]


@pytest.mark.parametrize("name", BINARY)
def test_an_operator_of_two_scalars_gives_the_bits_of_its_kernel(name):
    checked = 0
    for dtype in DTYPES:
        bound = bound_node(REGISTRY[name], dtype, dtype)
        if bound is not None and bound.expression is not None:
            check(bound, values_of(dtype), values_of(dtype))
            checked += 1
    assert checked


@pytest.mark.parametrize("name", UNARY)
def test_an_operator_of_one_scalar_gives_the_bits_of_its_kernel(name):
    found = [(bound_node(REGISTRY[name], dtype), dtype) for dtype in DTYPES]
    compiled = [(bound, dtype) for bound, dtype in found if bound is not None and bound.expression is not None]
    assert compiled
    for bound, dtype in compiled:
        check(bound, values_of(dtype))


def test_a_cast_of_a_scalar_gives_the_bits_of_its_kernel():
    for source, target in itertools.permutations(DTYPES, 2):
        check(bound_node(lambda x, to=target: af.cast(x, to), source), values_of(source))


def test_a_choice_of_scalars_gives_the_bits_of_its_kernel():
    for dtype in DTYPES:
        few = values_of(dtype)[:40]
        check(bound_node(af.where, af.bool, dtype, dtype), [np.True_, np.False_], few, few)


def test_division_by_a_constant_is_an_operator_and_division_by_a_fed_integer_is_checked():
    def halved(x):
        return x // 2

    bound = bound_node(halved, af.int32)
    check(bound, values_of(af.int32), [np.int32(2)])
    assert bound_node(REGISTRY["floordiv"], af.int32, af.int32).expression is None


@pytest.mark.parametrize("dtype", [af.float16, af.bfloat16, af.uint8, af.int16, af.complex64])
def test_other_dtypes_keep_their_kernels(dtype):
    assert bound_node(REGISTRY["add"], dtype, dtype).expression is None


# Regions


def source_of(*fetches, feeds) -> Source:
    """Return the source of the region that computes the fetches."""
    flow = prune(feeds, fetches, ())
    binder = Binder(Context(np, Resources(), None))
    binder.find_literals(flow.nodes)
    given = {*flow.feeds, *[value.node for value in binder.literals]}
    statements = [binder.bind(node) for node in flow.nodes if node not in given]
    return Source(statements, [Value(feed, 0) for feed in flow.feeds], list(flow.fetches), binder.literals)


def lines_of(source: Source) -> list[str]:
    return [line.strip() for line in source.text.splitlines()]


def test_a_loop_of_scalars_has_no_call_in_an_iteration():
    with af.Graph().as_default():
        end, scale = af.placeholder(af.int32, []), af.placeholder(af.float32, [])
        _, result = af.while_loop(lambda i, x: i < end, lambda i, x: (i + 1, x * scale), [0, 1.0])
        lines = lines_of(source_of(result, feeds=[end, scale]))
    assert "a0 = a0[()]" in lines
    assert "if not (v0 < a0): break" in lines
    assert "v1 = v1 * a1" in lines
    assert any(re.fullmatch(r"v0 = v0 \+ c\d", line) for line in lines)
    assert not any(re.search(r"\bk\d", line) for line in lines)


def test_a_variable_of_a_loop_is_overwritten_only_after_its_last_reader():
    with af.Graph().as_default():
        n = af.placeholder(af.int32, [])
        fibonacci = af.while_loop(lambda i, a, b: i < n, lambda i, a, b: (i + 1, b, a + b), [0, 0, 1])[1]
        late = af.while_loop(lambda i, a: i < n, lambda i, a: (i + 1, a + i), [0, 0])[1]
    for executor in (REGIONS, TOKENS):
        assert run([fibonacci, late], {n: 10}, executor) == [55, 45]


def test_a_value_that_a_kernel_gives_becomes_a_scalar_once():
    with af.Graph().as_default():
        x = af.placeholder(af.float32, [3])
        total = af.reduce_sum(x)
        lines = lines_of(source_of(total * total + total, feeds=[x]))
    assert sum("[()]" in line for line in lines) == 1


def run(fetches, feeds, config):
    """Return what a session gives, as a list, with each warning an error."""

    async def main():
        async with af.Session(graph=fetches[0].graph, config=config) as session:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                return await session.run(fetches, feeds)

    return asyncio.run(main())


def test_scalars_come_through_branches_loops_lists_and_state():
    with af.Graph().as_default():
        x, n = af.placeholder(af.float32, []), af.placeholder(af.int32, [])
        chosen = af.cond(x > 0, lambda: x * 2, lambda: af.cond(x < -1, lambda: -x, lambda: x - 1))
        mapped = af.map_fn(lambda v: v * chosen + 1, af.range(0.0, 5.0))
        scanned = af.scan(lambda a, v: a + v * x, mapped)
        inner = af.while_loop(lambda i, s: i < n, lambda i, s: (i + 1, _summed(s, i, x)), [0, chosen])[1]
        (slope,) = af.gradients(inner + af.reduce_sum(scanned), x)
        swapped = af.while_loop(lambda i, s: i < n, lambda i, s: (i + 1, s * x), [0, x], swap_memory=True)[1]
        fetches = [chosen, mapped, scanned, inner, slope, swapped, *af.gradients(swapped, x)]
        for value in (1.5, -0.25, -3.0, np.inf, np.nan, 3e38):
            for count in (0, 1, 7):
                found, wanted = (run(fetches, {x: value, n: count}, each) for each in (REGIONS, TOKENS))
                for mine, other in zip(found, wanted, strict=True):
                    np.testing.assert_array_equal(mine, other)
                    assert mine.dtype == other.dtype


def _summed(start, times, x):
    return af.while_loop(lambda j, s: j < times, lambda j, s: (j + 1, s + x * s), [0, start])[1]


def test_integers_wrap_around_and_floats_overflow_without_a_warning():
    with af.Graph().as_default():
        x, y = af.placeholder(af.int32, []), af.placeholder(af.float32, [])
        fetches = [x + 1, x * x, y * y, y / 0.0, 0.0 / (y - y)]
        found = run(fetches, {x: 2**31 - 1, y: 3e38}, REGIONS)
    assert found[:2] == [-(2**31), 1]
    assert found[2:4] == [np.inf, np.inf]
    assert np.isnan(found[4])


async def test_a_counter_counts_and_its_reads_keep_their_values():
    with af.Graph().as_default() as graph:
        count = af.Variable(0, name="count")
        before = af.identity(count.read_value())
        with af.control_dependencies([before]):
            after = count.assign_add(1) * 10
        async with af.Session(graph=graph) as session:
            await session.run(af.global_variables_initializer())
            assert [await session.run([before, after]) for _ in range(3)] == [[0, 10], [1, 20], [2, 30]]


def test_the_number_of_the_iteration_is_named_across_looks_at_the_clock():
    with af.Graph().as_default():
        n, table = af.placeholder(af.int32, []), af.constant(np.arange(1000, dtype=np.float32))
        total = af.while_loop(lambda i, s: i < n, lambda i, s: (i + 1, s + af.gather(table, i)), [0, 0.0])[1]
        assert run([total], {n: 1000}, REGIONS) == [499500.0]
        for config in (REGIONS, TOKENS):
            with pytest.raises(af.errors.InvalidArgumentError, match="in iteration 1000 of"):
                run([total], {n: 1001}, config)


@pytest.mark.parametrize("most", [-1, 0, 1, 3, 300])
def test_a_limit_of_iterations_holds_beside_the_condition(most):
    with af.Graph().as_default():
        n, limit = af.placeholder(af.int32, []), af.placeholder(af.int32, [])
        result = af.while_loop(lambda i: i < n, lambda i: [i + 1], [0], maximum_iterations=limit)
        for config in (REGIONS, TOKENS):
            for count in (0, 2, 299, 301):
                assert run([result], {n: count, limit: most}, config) == [min(count, max(most, 0))]
