"""A GPU: the same kernels as in plain CuPy on one stream, and copies that run in parallel with them."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import ml_dtypes
import numpy as np

from benchmarks import gpu_convnet, peers
from benchmarks.harness import Step, alternate
from benchmarks.lenet import Problem, with_jax, with_torch
from benchmarks.report import Claim, Row, timed_row

SIZE, LENGTH = 4096, 16
BATCH = 1 << 24
"""Elements of a batch that is copied to the GPU and back: 64 MB."""
PROBLEM = Problem()
TARGET = 1 / 0.9
"""The largest ratio to the time of CuPy."""
ROUNDS = 9
"""Rounds of each row: all rows, with compiling kernels, take less than the four minutes of `make gpu`."""
CUPY, GRAPHS = "CuPy, one stream", "aioflow, CUDA graphs"
GPU = "/device:GPU:0"


async def rows() -> AsyncIterator[Row]:
    """Measure the chain of products, a training step, then batches that are copied while the one before is computed."""
    yield await products_row("float32", 1e-3)
    training = {
        peers.AIOFLOW: convnet(),
        GRAPHS: convnet(cuda_graphs=True),
        CUPY: convnet_by_hand(),
        peers.TORCH: convnet_by_torch(),
        peers.JAX: convnet_by_jax(),
    }
    timing = await alternate(training, rounds=ROUNDS, agree=1e-3)
    claims = [Claim(f"{name} / CuPy", timing.ratio(name, CUPY), TARGET) for name in (peers.AIOFLOW, GRAPHS)]
    yield timed_row(f"{PROBLEM}, SGD step", timing, claims, ["both work on the same blocks of patches and images"])
    timing = await alternate({peers.AIOFLOW: batches(), CUPY: batches_by_hand()}, rounds=ROUNDS, agree=1e-3)
    claim = Claim("aioflow / CuPy, which copies between kernels", timing.ratio(peers.AIOFLOW, CUPY), 1.0)
    yield timed_row(f"4 batches of {BATCH} float32, fed, worked on and fetched", timing, [claim])
    yield await products_row("bfloat16", 2e-2)


async def products_row(dtype: str, agree: float) -> Row:
    """Measure the chain of products in a dtype."""
    sides = {
        peers.AIOFLOW: products(dtype),
        GRAPHS: products(dtype, cuda_graphs=True),
        CUPY: products_by_hand(dtype),
        peers.TORCH: products_by_torch(dtype),
        peers.JAX: products_by_jax(dtype),
    }
    timing = await alternate(sides, rounds=ROUNDS, agree=agree)
    claim = Claim("aioflow / CuPy", timing.ratio(peers.AIOFLOW, CUPY), TARGET)
    return timed_row(f"chain of {LENGTH} products of {SIZE} x {SIZE} {dtype}", timing, [claim])


def cupy() -> Any:
    """Return CuPy. ImportError if it is not installed or sees no GPU."""
    import cupy

    if not cupy.cuda.is_available():
        raise ImportError("CuPy sees no GPU")
    return cupy


def torch_on_gpu() -> Any:
    """Return PyTorch, in whole float32. ImportError if it is not installed or sees no GPU."""
    torch = peers.torch()
    if not torch.cuda.is_available():
        raise ImportError("PyTorch sees no GPU")
    torch.backends.cudnn.allow_tf32 = False
    return torch


def jax_on_gpu() -> Any:
    """Return jax, in whole float32. ImportError if it is not installed or sees no GPU."""
    os.environ.setdefault("JAX_PLATFORMS", "cuda")
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    jax = peers.jax()
    try:
        jax.devices("cuda")
    except (AssertionError, RuntimeError) as error:
        raise ImportError(f"jax sees no GPU: {error}") from error
    jax.config.update("jax_default_matmul_precision", "highest")
    return jax


def matrix(seed: int, dtype: str) -> Any:
    """Return a matrix whose powers neither vanish nor overflow."""
    drawn = np.random.default_rng(seed).standard_normal((SIZE, SIZE)) / np.sqrt(SIZE)
    return drawn.astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)


@asynccontextmanager
async def products(dtype: str, **config: Any) -> AsyncIterator[Step]:
    """Run the chain as a graph on the GPU; fetches the mean of the squares."""
    cupy()
    af = peers.aioflow()
    graph = af.Graph()
    with graph.as_default(), af.device(GPU):
        weights = af.Variable(matrix(0, dtype))
        y = af.Variable(matrix(1, dtype))
        for _ in range(LENGTH):
            y = af.matmul(y, weights)
        mean = af.reduce_mean(af.square(af.cast(y, af.float32)))
        init = af.global_variables_initializer()
    async with af.Session(graph=graph, config=af.Config(device_count={"GPU": 1}, **config)) as session:
        await session.run(init)
        call = session.make_callable(mean)

        async def step() -> Any:
            return await call()

        yield step


@asynccontextmanager
async def products_by_hand(dtype: str) -> AsyncIterator[Step]:
    """Make the same calls in CuPy."""
    xp = cupy()
    with xp.cuda.Stream(non_blocking=True):
        weights, x = [xp.asarray(matrix(seed, dtype)) for seed in (0, 1)]

        def step() -> Any:
            y = x
            for _ in range(LENGTH):
                y = y @ weights
            return xp.square(y.astype(np.float32)).mean().get()[()]

        yield step


@asynccontextmanager
async def products_by_torch(dtype: str) -> AsyncIterator[Step]:
    """Make the same calls in PyTorch, in whole float32."""
    torch = torch_on_gpu()
    weights, x = [torch.from_numpy(matrix(seed, "float32")).cuda().to(getattr(torch, dtype)) for seed in (0, 1)]

    def step() -> Any:
        y = x
        for _ in range(LENGTH):
            y = y @ weights
        return y.float().square().mean().item()

    yield step


@asynccontextmanager
async def products_by_jax(dtype: str) -> AsyncIterator[Step]:
    """Compile the same calls with jax.jit, in whole float32."""
    jax = jax_on_gpu()
    weights, x = [jax.device_put(matrix(seed, dtype)) for seed in (0, 1)]

    @jax.jit
    def run(weights: Any, x: Any) -> Any:
        y = x
        for _ in range(LENGTH):
            y = y @ weights
        return jax.numpy.square(y.astype(np.float32)).mean()

    yield lambda: float(run(weights, x))


@asynccontextmanager
async def convnet(**config: Any) -> AsyncIterator[Step]:
    """Run the training step as a graph on the GPU."""
    cupy()
    async with gpu_convnet.by_graph(PROBLEM, GPU, device_count={"GPU": 1}, **config) as step:
        yield step


@asynccontextmanager
async def convnet_by_hand() -> AsyncIterator[Step]:
    """Call the same kernels one after the other."""
    xp = cupy()
    with xp.cuda.Stream(non_blocking=True):
        step = gpu_convnet.by_hand(xp, PROBLEM)
        yield lambda: step().get()[()]


@asynccontextmanager
async def convnet_by_torch() -> AsyncIterator[Step]:
    """Train eager PyTorch's net, whose convolutions are cuDNN's."""
    torch_on_gpu()
    async with with_torch.training(PROBLEM, "cuda") as step:
        yield step


@asynccontextmanager
async def convnet_by_jax() -> AsyncIterator[Step]:
    """Train the net that XLA compiles."""
    jax_on_gpu()
    async with with_jax.training(PROBLEM) as step:
        yield step


@asynccontextmanager
async def batches() -> AsyncIterator[Step]:
    """Run four steps at a time in one session."""
    cupy()
    af = peers.aioflow()
    graph = af.Graph()
    with graph.as_default():
        fed = x = af.placeholder(af.float32, [BATCH])
        with af.device(GPU):
            for _ in range(20):
                x = af.tanh(x)
    async with af.Session(graph=graph, config=af.Config(device_count={"GPU": 1})) as session:
        call = session.make_callable(x, feeds=[fed])
        batch = np.linspace(-1, 1, BATCH, dtype=np.float32)

        async def step() -> Any:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(call(batch)) for _ in range(4)]
            return sum(task.result()[-1] for task in tasks)

        yield step


@asynccontextmanager
async def batches_by_hand() -> AsyncIterator[Step]:
    """Run one batch after the other, with copies from pageable memory."""
    xp = cupy()
    batch = np.linspace(-1, 1, BATCH, dtype=np.float32)

    def one() -> Any:
        x = xp.asarray(batch)
        for _ in range(20):
            x = xp.tanh(x)
        return x.get()[-1]

    with xp.cuda.Stream(non_blocking=True):
        yield lambda: sum(one() for _ in range(4))
