"""The networks in aioflow and in ONNX Runtime: each loads the model and answers the same batch again and again."""

import importlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from benchmarks import peers
from benchmarks.harness import Step
from benchmarks.image_networks import Floats, summary


@asynccontextmanager
async def with_aioflow(model: Any, images: Floats) -> AsyncIterator[Step]:
    """Yield a step that computes the results for the images."""
    af = peers.aioflow()
    imported = af.onnx.load(model.SerializeToString(), af.Graph())
    async with af.Session(graph=imported.graph) as session:
        await session.run(imported.initializer)
        call = session.make_callable(next(iter(imported.outputs.values())), feeds=[*imported.inputs.values()])

        async def step() -> float:
            return summary(await call(images))

        yield step


@asynccontextmanager
async def with_onnxruntime(model: Any, images: Floats) -> AsyncIterator[Step]:
    """Yield a step that computes the results for the images, with two threads."""
    runtime = importlib.import_module("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 2, 4
    session = runtime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
    feeds = {session.get_inputs()[0].name: images}

    def step() -> float:
        return summary(session.run(None, feeds)[0])

    yield step
