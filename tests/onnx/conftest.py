"""A saved part of a graph, for the tests that load it or run it elsewhere."""

import numpy as np
import pytest

import aioflow as af


@pytest.fixture
async def saved(request, tmp_path):
    """The path of a saved part of a graph, a batch, and what the graph computes of it."""
    graph, batch = af.Graph(), np.random.default_rng(0).normal(size=(2 * 24, 6)).astype(np.float32)
    with graph.as_default():
        x = af.placeholder(af.float32, [None, 6])
        made = request.param(x)
        outputs = {f"y{i}": y for i, y in enumerate(made if isinstance(made, tuple) else (made,))}
    async with af.Session(graph=graph) as session:
        with graph.as_default():
            await session.run(af.global_variables_initializer())
        await af.onnx.save(tmp_path / "model.onnx", {"batch": x}, outputs, session=session)
        return tmp_path / "model.onnx", batch, await session.run(outputs, {x: batch})
