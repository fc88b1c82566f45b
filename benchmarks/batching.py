"""1, 64 and 512 clients query one MLP, one image per request, and batches of requests are computed together.

`session.batched` gathers the requests of aioflow. By hand, it is a future for each request, and a task that runs all
that came, with the same callable. TensorFlow and ONNX Runtime answer each request in a thread of a pool.
"""

import asyncio
import importlib
import statistics
from collections.abc import AsyncIterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import numpy as np

from benchmarks import peers
from benchmarks.clients import Load, measure, storm
from benchmarks.harness import Step, enter, freeze, percentile
from benchmarks.inference import CORES, behind_pool
from benchmarks.lag import watched
from benchmarks.mlp import Problem, with_aioflow, with_numpy
from benchmarks.report import Claim, Row, span

CLIENTS, ROUNDS, REQUESTS = (1, 64, 512), 9, 5120
PROBLEM = Problem((784, 256, 128, 10), max(CLIENTS))
IMAGES = [PROBLEM.images[client : client + 1] for client in range(max(CLIENTS))]
MOST = 64
BATCHED, BY_HAND, ALONE = "aioflow, batched", "aioflow, batched by hand", "aioflow, each alone"
TENSORFLOW, ONNX = f"{peers.TENSORFLOW}, {CORES} threads", f"ONNX Runtime, {CORES} threads"


async def rows() -> AsyncIterator[Row]:
    """Measure each number of clients."""
    sides = {
        BATCHED: batched(), BY_HAND: by_hand(), ALONE: with_aioflow.inference(PROBLEM),
        TENSORFLOW: behind_pool(PROBLEM, CORES), ONNX: onnxruntime(),
    }  # fmt: skip
    missing: dict[str, str] = {}
    async with AsyncExitStack() as stack:
        built, _ = await enter(stack, sides, missing, first=0)
        await check(built)
        freeze()
        for clients in CLIENTS:
            loads = await measure(built, IMAGES[:clients], ROUNDS, max(1, REQUESTS // 4 // clients))
            title = f"{clients} clients of {PROBLEM}".replace(f"batch {PROBLEM.batch}", "one image per request")
            yield Row(title, {name: str(load) for name, load in loads.items()} | missing, claims(clients, loads))
        yield await lag_row(built[BATCHED])


async def lag_row(infer: Step) -> Row:
    """Measure the delay of the loop's timers while all clients query the net in batches."""

    async def load() -> None:
        await storm(infer, IMAGES, 4)

    late, _ = await watched(load)
    lag = percentile(late, 0.99)
    title = f"event-loop lag while {len(IMAGES)} clients query {PROBLEM.sizes} in batches"
    return Row(title, {BATCHED: f"p99 {span(lag)}"}, [Claim("p99 lag", lag * 1e3, 5, unit=" ms")])


def claims(clients: int, loads: Mapping[str, Load]) -> list[Claim]:
    """Compare rates and latencies."""
    if clients == 1:
        return [Claim("p50, batched / each alone", median(loads, BATCHED, ALONE, "medians"), 1.1)]
    return [
        Claim("requests/s, batched / each alone", median(loads, BATCHED, ALONE, "rates"), 1.7, at_least=True),
        Claim("time a request, batched / by hand", median(loads, BY_HAND, BATCHED, "rates"), 1.25),
        Claim("requests/s, batched / TensorFlow", median(loads, BATCHED, TENSORFLOW, "rates"), 10, at_least=True),
        Claim("requests/s, batched / ONNX Runtime", median(loads, BATCHED, ONNX, "rates"), 2, at_least=True),
        *[Claim(f"p99, batched / {other}", median(loads, BATCHED, other, "tails"), 1) for other in (TENSORFLOW, ONNX)],
    ]


def median(loads: Mapping[str, Load], ours: str, theirs: str, what: str) -> float | None:
    """Return the median of the ratios of two sides; None if one is missing."""
    if ours not in loads or theirs not in loads:
        return None
    pairs = zip(getattr(loads[ours], what), getattr(loads[theirs], what), strict=True)
    return statistics.median(mine / other for mine, other in pairs)


async def check(built: Mapping[str, Step]) -> None:
    """Check that all sides give NumPy's logits."""
    _, logits = with_numpy.forward(PROBLEM.weights(), PROBLEM.images)
    for infer in built.values():
        answers = await asyncio.gather(*map(infer, IMAGES))
        np.testing.assert_allclose(np.concatenate(answers), logits, rtol=1e-3, atol=1e-4)


@asynccontextmanager
async def batched() -> AsyncIterator[Step]:
    """Yield `session.batched`."""
    async with with_aioflow.session(PROBLEM) as (session, images, logits):
        yield session.batched(logits, feeds=[images], max_rows=MOST)


@asynccontextmanager
async def by_hand() -> AsyncIterator[Step]:
    """Yield what one would write without it: the requests of a turn of the loop are one batch."""
    async with with_aioflow.inference(PROBLEM) as infer:
        waiting: list[tuple[Any, asyncio.Future[Any]]] = []
        task: asyncio.Task[None] | None = None

        async def run() -> None:
            nonlocal task
            await asyncio.sleep(0)
            while waiting:
                batch = waiting[:MOST]
                del waiting[:MOST]
                logits = await infer(np.concatenate([image for image, _ in batch]))
                for row, (_, answer) in enumerate(batch):
                    answer.set_result(logits[row : row + 1])
                await asyncio.sleep(0)
            task = None

        async def ask(image: Any) -> Any:
            nonlocal task
            answer = asyncio.get_running_loop().create_future()
            waiting.append((image, answer))
            task = task or asyncio.create_task(run())
            return await answer

        yield ask


@asynccontextmanager
async def onnxruntime() -> AsyncIterator[Step]:
    """Yield ONNX Runtime with the same net, run in a pool of threads and awaited."""
    runtime = importlib.import_module("onnxruntime")
    session = runtime.InferenceSession(onnx_model(), providers=["CPUExecutionProvider"])
    loop = asyncio.get_running_loop()
    with ThreadPoolExecutor(CORES) as pool:

        async def infer(images: Any) -> Any:
            return (await loop.run_in_executor(pool, session.run, None, {"images": images}))[0]

        yield infer


def onnx_model() -> bytes:
    """Return the net as a file of ONNX."""
    helper, arrays = importlib.import_module("onnx.helper"), importlib.import_module("onnx.numpy_helper")
    kind = importlib.import_module("onnx").TensorProto.FLOAT
    nodes, weights, at = [], [], "images"
    for layer, (matrix, bias) in enumerate(PROBLEM.weights()):
        if layer:
            nodes.append(helper.make_node("Relu", [at], [f"relu{layer}"]))
            at = f"relu{layer}"
        weights += [arrays.from_array(matrix, f"w{layer}"), arrays.from_array(bias, f"b{layer}")]
        nodes.append(helper.make_node("Gemm", [at, f"w{layer}", f"b{layer}"], [f"sum{layer}"]))
        at = f"sum{layer}"
    ends = [(["rows", PROBLEM.sizes[0]], "images"), (["rows", PROBLEM.sizes[-1]], at)]
    inputs, outputs = ([helper.make_tensor_value_info(name, kind, shape)] for shape, name in ends)
    graph = helper.make_graph(nodes, "mlp", inputs, outputs, weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return bytes(model.SerializeToString())
