"""The plain executor defines the meaning; what is compiled, simplified and merged agrees with it."""

import asyncio

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import aioflow as af
from aioflow.testing import VirtualTimeLoop
from tests.support.graphs import Built, built_graphs

CONFIGS = {
    "tokens": af.Config(executor="tokens", optimize=False),
    "tokens, optimised": af.Config(executor="tokens"),
    "regions": af.Config(optimize=False),
    "regions, optimised": af.Config(),
}


async def _three_steps(built: Built, config: af.Config) -> list[list[np.ndarray]]:
    """Every tensor of the graph, three times, so that state carries over."""
    async with af.Session(graph=built.graph, config=config) as session:
        await session.run(built.init)
        return [await session.run(built.tensors, built.feeds) for _ in range(3)]


async def _results(built: Built) -> dict[str, list[list[np.ndarray]]]:
    return {name: await _three_steps(built, config) for name, config in CONFIGS.items()}


def _run(built: Built) -> dict[str, list[list[np.ndarray]]]:
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(_results(built))


@given(built_graphs())
def test_regions_and_optimised_plans_agree_with_the_plain_executor(built: Built) -> None:
    results = _run(built)
    for name, steps in results.items():
        for step, expected in zip(steps, results["tokens"], strict=True):
            for tensor, value, wanted in zip(built.tensors, step, expected, strict=True):
                np.testing.assert_allclose(
                    value, wanted, rtol=1e-5, atol=1e-6, err_msg=f"{name}: {tensor} of {tensor.op.type}"
                )


@given(built_graphs(), st.data())
def test_a_part_of_a_graph_gives_what_the_whole_gives(built: Built, data: st.DataObject) -> None:
    """Pruning keeps what a fetch needs: without state, the value does not depend on what else is fetched."""
    pure = [tensor for tensor in built.tensors if not _touches_state(tensor)]
    chosen = data.draw(st.lists(st.sampled_from(pure), min_size=1, max_size=3))

    async def both() -> tuple[list[np.ndarray], list[np.ndarray]]:
        async with af.Session(graph=built.graph) as session:
            await session.run(built.init)
            return await session.run(chosen, built.feeds), await session.run(pure, built.feeds)

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        part, whole = runner.run(both())
    for tensor, value in zip(chosen, part, strict=True):
        np.testing.assert_allclose(value, whole[pure.index(tensor)], rtol=1e-5, atol=1e-6)


def _touches_state(tensor: af.Tensor) -> bool:
    seen, stack = set(), [tensor.op]
    while stack:
        operation = stack.pop()
        if operation.type == "variable":
            return True
        if operation not in seen:
            seen.add(operation)
            stack.extend([*[source.op for source in operation.inputs], *operation.control_inputs])
    return False


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
async def test_reads_and_updates_of_a_variable_run_in_the_order_they_were_built(config: af.Config) -> None:
    with af.Graph().as_default() as graph:
        variable = af.Variable(1.0)
        before = variable.read_value()
        first = variable.assign_add(1.0)
        between = variable.read_value()
        second = variable.assign(between * 10.0)
        after = variable.read_value()
        init = af.global_variables_initializer()
    async with af.Session(graph=graph, config=config) as session:
        await session.run(init)
        values = await session.run([after, second, between, first, before])
        assert values == [20.0, 20.0, 2.0, 2.0, 1.0]
        assert await session.run([before, second.op]) == [20.0, None]
        assert await session.run(before) == 200.0
