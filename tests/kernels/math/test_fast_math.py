"""`Config(fast_math=True)`: which functions are approximated, and how well."""

import numpy as np
import pytest

import aioflow as af
from aioflow.devices.onednn import available
from aioflow.kernels.math import onednn_elementwise
from aioflow.kernels.math.onednn_elementwise import LEAST, SMALLEST, logistic
from tests.support.scale import amount

pytestmark = pytest.mark.skipif(not available(), reason="oneDNN is not installed, or switched off")
SIZE = 1 << 20
SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, -np.nan, 1e-45, -1e-45, 1.2e-38, 3.4e38, -3.4e38, -86.9, -87.4, -104.0]


@pytest.fixture(autouse=True)
def slow_numpy(monkeypatch):
    """NumPy computes the functions without the widest vectors, whatever this processor has."""
    monkeypatch.setattr(onednn_elementwise, "beats_numpy", lambda function: True)


def every_float(step):
    """Float32 numbers of all kinds at equal distances of their bits."""
    return np.arange(0, 1 << 32, step, dtype=np.uint64).astype(np.uint32).view(np.float32)


def test_results_are_within_four_units_in_the_last_place():
    x = np.concatenate([every_float(amount(4001, 37)), np.array(SPECIAL, np.float32), np.zeros(SMALLEST, np.float32)])
    assert logistic(x) is None
    x = x[x >= LEAST]
    y, true = logistic(x), 1 / (1 + np.exp(-x.astype(np.float64)))
    error = np.abs(y - true) / np.spacing(true.astype(np.float32)).astype(np.float64)
    assert error.max() <= 4


@pytest.mark.parametrize("stray", [-41.0, -87.0, -np.inf, np.nan])
async def test_an_array_that_would_be_approximated_badly_is_computed_exactly(stray):
    data = np.linspace(-20, 20, SMALLEST, dtype=np.float32)
    data[1234] = stray
    assert np.array_equal(
        await results(af.sigmoid, data, fast_math=True), await results(af.sigmoid, data), equal_nan=True
    )


def graph_of(function, size=SIZE):
    x = af.placeholder(af.float32, [None])
    return x, function(x), np.linspace(-12, 12, size, dtype=np.float32)


async def results(function, data=None, **settings):
    with af.Graph().as_default() as graph:
        x, y, made = graph_of(function)
        async with af.Session(graph=graph, config=af.Config(**settings)) as session:
            return await session.run(y, {x: made if data is None else data})


def chain(x):
    return af.tanh(x * 2.0 + 1.0) * af.sigmoid(x)


@pytest.mark.parametrize("function", [af.sigmoid, chain], ids=["alone", "in a chain"])
@pytest.mark.parametrize("settings", [{}, {"executor": "tokens"}, {"fuse_elementwise": False}])
async def test_a_session_with_fast_math_is_near_one_without(function, settings):
    exact = await results(function, **settings)
    fast = await results(function, fast_math=True, **settings)
    assert not np.array_equal(exact, fast)
    np.testing.assert_allclose(fast, exact, rtol=2e-6, atol=0)


async def test_without_fast_math_and_for_few_elements_the_bits_are_the_same(monkeypatch):
    few = np.linspace(-20, 20, 1000, dtype=np.float32)
    assert np.array_equal(await results(chain, few, fast_math=True), await results(chain, few))
    calls = []
    monkeypatch.setattr(onednn_elementwise, "logistic", lambda *args: calls.append(args))
    await results(chain)
    assert not calls
    await results(chain, fast_math=True)
    assert calls


async def test_scalars_and_other_dtypes_are_never_approximated():
    with af.Graph().as_default() as graph:
        x, n = af.constant(np.linspace(-9, 9, SIZE)), af.placeholder(af.float32, [])
        wide, narrow = af.sigmoid(x), af.sigmoid(n)
        found = []
        for fast in (False, True):
            async with af.Session(graph=graph, config=af.Config(fast_math=fast)) as session:
                found.append(await session.run([wide, narrow], {n: np.float32(0.3)}))
    assert np.array_equal(found[0][0], found[1][0])
    assert found[0][1] == found[1][1]


async def test_the_trace_names_approximating_kernels():
    with af.Graph().as_default() as graph:
        x, _, data = graph_of(lambda x: x)
        y = af.sigmoid(x, name="fast") + af.exp(x, name="exact")
        for fast in (False, True):
            async with af.Session(graph=graph, config=af.Config(fast_math=fast)) as session:
                metadata = af.RunMetadata()
                await session.run(y, {x: data}, options=af.RunOptions(trace=True), metadata=metadata)
            marked = {stats.name for stats in metadata.step_stats if stats.fast}
            assert marked == ({"fast"} if fast else set())
            events = [event for event in metadata.chrome_trace()["traceEvents"] if "fast_math" in event.get("args", {})]
            assert len(events) == fast


def test_threads_that_compute_blocks_start_no_others():
    from aioflow.devices.onednn import library

    lib = library()
    before = lib._threads() if lib._threads else None
    with lib.one_thread():
        assert lib._threads is None or lib._threads() == 1
    assert before is None or lib._threads() == before


async def test_a_gradient_of_an_approximated_function_is_near_the_exact_one():
    def slope(x):
        (dx,) = af.gradients(af.reduce_sum(chain(x)), [x])
        return dx

    exact, fast = await results(slope), await results(slope, fast_math=True)
    np.testing.assert_allclose(fast, exact, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("wide", [False, True])
async def test_functions_that_numpy_computes_by_the_widest_vectors_stay_with_numpy(monkeypatch, wide):
    calls = []
    monkeypatch.setattr(onednn_elementwise, "logistic", lambda *args: calls.append(args))
    monkeypatch.setattr(onednn_elementwise, "beats_numpy", lambda function: not wide)
    await results(chain, fast_math=True)
    assert bool(calls) != wide
