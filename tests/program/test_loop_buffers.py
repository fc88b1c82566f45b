"""Variables of loops that an operation changes in place: when it does so, and that nobody can tell."""

from collections.abc import Callable

import numpy as np
import pytest

import aioflow as af
from aioflow.graph.op import op
from aioflow.kernels.families import CPU
from aioflow.program import pieces
from aioflow.tensors import dtypes
from aioflow.tensors.dtypes import Array, Namespace, Spec

ROUNDS = 4
FIRST = np.arange(12, dtype=np.float32).reshape(4, 3)


@op(name="test_address")
def address(x: Spec, note: Callable[[int], None]) -> Spec:
    """0, after `note` has got the address of the array."""
    return Spec(dtypes.float32, dtypes.SCALAR)


address.no_gradient("it is a constant")


@address.kernel(CPU, fresh=True)
def _(xp: Namespace, x: Array, *, note: Callable[[int], None]) -> Array:
    note(x.ctypes.data)
    return np.zeros((), np.float32)


def update(x, i):
    return af.tensor_scatter_update(x, [[i]], [af.fill([3], af.cast(10 * i, af.float32))])


def plain(i, x, other):
    return update(x, i), other


def read_before(i, x, other):
    total = af.reduce_sum(x)
    return update(x, i), other + total


def viewed_after(i, x, other):
    new = update(x, i)
    return new, other + af.reduce_sum(af.transpose(new[: i + 1]))


def twice(i, x, other):
    return af.tensor_scatter_add(update(x, i), [[0, 1], [0, 1]], [1.0, 2.0]), other


def exchanged(i, x, other):
    return other, update(x, i)


def both(i, x, other):
    return update(x, i), update(other, 3 - i)


def crossed(i, x, other):
    return update(other, i), update(x, 3 - i)


def read_after(i, x, other):
    new = update(x, i)
    return new, other + x


def old_view(i, x, other):
    view = x[:2]
    return update(x, i), other + af.reduce_sum(view)


def kept_view(i, x, other):
    new = update(x, i)
    return new, new[::-1]


def same_for_both(i, x, other):
    new = update(x, i)
    return new, new


def in_a_branch(i, x, other):
    return af.cond(i > 1, lambda: update(x, i), lambda: x), other


IN_PLACE = [plain, read_before, viewed_after, twice, both, crossed]
COPIED = [exchanged, read_after, old_view, kept_view, same_for_both, in_a_branch]


def looped(body, note):
    """The results of the loop, whose variables begin with one fed array, and that array."""
    first = af.placeholder(af.float32, FIRST.shape)

    def step(i, x, other, zero):
        none = address(x, note)
        return i + 1, *body(i, x, other), zero + none

    results = af.while_loop(lambda i, *_: i < ROUNDS, step, [0, first, first, 0.0])
    return results[1:], first


async def computed(fetches, feeds, executor):
    """The values of two runs."""
    async with af.Session(graph=fetches[0].graph, config=af.Config(executor=executor)) as session:
        return [*await session.run(fetches, feeds), *await session.run(fetches, feeds)]


@pytest.mark.parametrize("longest", [pieces.LONGEST, 3])
@pytest.mark.parametrize("body", [*IN_PLACE, *COPIED], ids=lambda body: body.__name__)
async def test_a_variable_is_changed_in_place_if_nothing_else_refers_to_it(body, longest, monkeypatch):
    monkeypatch.setattr(pieces, "LONGEST", longest)
    addresses, fed = [], FIRST.copy()
    with af.Graph().as_default():
        results, first = looped(body, addresses.append)
    wanted = await computed(results, {first: fed}, "tokens")
    addresses.clear()
    for found, expected in zip(await computed(results, {first: fed}, "regions"), wanted, strict=True):
        np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(fed, FIRST)
    places = len(set(addresses[1:ROUNDS]))  # the first iteration makes a new array
    if body in IN_PLACE:
        assert places == (2 if body is crossed else 1)
    else:
        assert places > 1


@pytest.mark.parametrize("rounds", [0, 3])
async def test_the_first_value_keeps_its_order_in_memory_which_sums_depend_on(rounds):
    sizes = 37, 301
    with af.Graph().as_default():
        fed = af.placeholder(af.float32, sizes)

        def step(i, x, total):
            sums = total + af.reduce_sum(x, 0)
            return i + 1, af.tensor_scatter_update(x, [[i]], [total]), sums

        _, last, total = af.while_loop(lambda i, *_: i < rounds, step, [0, af.transpose(fed), af.zeros(sizes[:1])])
        fetches = [af.reduce_sum(last, 0), total]
    feeds = {fed: np.random.default_rng(0).standard_normal(sizes).astype(np.float32)}
    found, wanted = [await computed(fetches, feeds, executor) for executor in ("regions", "tokens")]
    np.testing.assert_array_equal(found, wanted)


async def test_a_list_or_a_variable_of_the_session_that_keeps_a_value_keeps_it():
    with af.Graph().as_default() as graph:
        state = af.Variable(af.zeros(FIRST.shape))

        def step(i, x, kept):
            new = update(x, i)
            with af.control_dependencies([state.assign(new)]):
                return i + 1, new, kept.write(i, new)

        kept = af.TensorArray(af.float32, ROUNDS)
        _, _, kept = af.while_loop(lambda i, *_: i < ROUNDS, step, [0, af.constant(FIRST), kept])
        stacked = kept.stack()
        async with af.Session(graph=graph) as session:
            await session.run(af.global_variables_initializer())
            rows = await session.run(stacked)
            assert await session.run(state) == pytest.approx(rows[-1])
    wanted = FIRST.copy()
    for i, row in enumerate(rows):
        wanted[i] = 10 * i
        np.testing.assert_array_equal(row, wanted)


async def test_values_kept_for_the_gradient_are_those_of_their_iterations():
    with af.Graph().as_default():
        first = af.placeholder(af.float32, FIRST.shape)
        step = lambda i, x, total: (i + 1, update(x * 1.5, i), total + af.reduce_sum(x * x * x))  # noqa: E731
        total = af.while_loop(lambda i, *_: i < ROUNDS, step, [0, first, 0.0])[2]
        slopes = af.gradients(total, first)
    found, wanted = [await computed(slopes, {first: FIRST}, executor) for executor in ("regions", "tokens")]
    np.testing.assert_array_equal(found, wanted)
