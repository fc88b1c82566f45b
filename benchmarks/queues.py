"""Queues: a scalar in and out by two runs, batches of rows out of a shuffle queue, and many waiting runs."""

import asyncio
import json
import statistics
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import numpy as np

from benchmarks import peers
from benchmarks.harness import Step, alternate
from benchmarks.pending import COLLECTORS, ENDINGS
from benchmarks.report import Claim, Row, span, timed_row

BATCH, ROW = 128, 784
CAPACITY, LEAST = 2000, 1000
ROWS = np.random.default_rng(1).standard_normal((BATCH, ROW)).astype(np.float32)
PENDING, THEIRS = 100_000, 2_000
ROUNDS = 3


async def rows() -> AsyncIterator[Row]:
    """Measure the three."""
    scalar = await alternate({peers.AIOFLOW: aioflow_scalar(), peers.TENSORFLOW: tensorflow_scalar()}, agree=0)
    half = Claim("aioflow / TensorFlow", scalar.ratio(peers.AIOFLOW, peers.TENSORFLOW), 0.5)
    yield timed_row("enqueue and dequeue of a scalar, two session.run", scalar, [half])
    batch = await alternate({peers.AIOFLOW: aioflow_batch(), peers.TENSORFLOW: tensorflow_batch()})
    seconds = batch.seconds(peers.AIOFLOW)
    rate = None if seconds is None else ROWS.nbytes / seconds / 1e9
    claim = Claim("aioflow", rate, 1, at_least=True, unit=" GB/s")
    note = "a step puts as many rows as it takes, by enqueue_many: the claim counts the bytes of one way for both"
    yield timed_row(f"dequeue_many({BATCH}) of {ROW} floats from a shuffle queue", batch, [claim], [note])
    yield await pending()


# A scalar


@asynccontextmanager
async def aioflow_scalar() -> AsyncIterator[Step]:
    """One run enqueues the number that another one dequeues."""
    af = peers.aioflow()
    graph = af.Graph()
    with graph.as_default():
        queue, value = af.FIFOQueue(10, af.float32, [[]]), af.placeholder(af.float32, [])
        put, take = queue.enqueue(value), queue.dequeue()
    async with af.Session(graph=graph) as session:

        async def step() -> Any:
            await session.run(put, {value: 2.0})
            return await session.run(take)

        yield step


@asynccontextmanager
async def tensorflow_scalar() -> AsyncIterator[Step]:
    """Do the same in TensorFlow."""
    tf = peers.tensorflow()
    with tf.Graph().as_default(), tf.Session() as session:
        queue, value = tf.FIFOQueue(10, tf.float32, [[]]), tf.placeholder(tf.float32, [])
        put, take = queue.enqueue(value), queue.dequeue()

        def step() -> Any:
            session.run(put, {value: 2.0})
            return session.run(take)

        yield step


# Rows


@asynccontextmanager
async def aioflow_batch() -> AsyncIterator[Step]:
    """One run enqueues rows, another one dequeues as many."""
    af = peers.aioflow()
    graph = af.Graph()
    with graph.as_default():
        queue = af.RandomShuffleQueue(CAPACITY, LEAST, af.float32, [[ROW]], seed=1)
        values = af.placeholder(af.float32, [None, ROW])
        put, take = queue.enqueue_many(values), queue.dequeue_many(BATCH)
    async with af.Session(graph=graph) as session:
        for _ in range(LEAST // BATCH + 1):
            await session.run(put, {values: ROWS})

        async def step() -> Any:
            await session.run(put, {values: ROWS})
            return (await session.run(take)).shape[0]

        yield step


@asynccontextmanager
async def tensorflow_batch() -> AsyncIterator[Step]:
    """Do the same in TensorFlow."""
    tf = peers.tensorflow()
    with tf.Graph().as_default(), tf.Session() as session:
        queue = tf.RandomShuffleQueue(CAPACITY, LEAST, tf.float32, [[ROW]], seed=1)
        values = tf.placeholder(tf.float32, [None, ROW])
        put, take = queue.enqueue_many(values), queue.dequeue_many(BATCH)
        for _ in range(LEAST // BATCH + 1):
            session.run(put, {values: ROWS})

        def step() -> Any:
            session.run(put, {values: ROWS})
            return session.run(take).shape[0]

        yield step


# Waiting


async def pending() -> Row:
    """Measure waiting runs, each measurement in a new process."""
    found = {
        (ending, collector): await measured(peers.AIOFLOW, PENDING, ending, collector)
        for collector in reversed(COLLECTORS)
        for ending in ENDINGS
    }
    theirs = await measured(peers.TENSORFLOW, THEIRS)
    figures = {f"{ending}, collector {collector}": told(each) for (ending, collector), each in found.items()}
    every = list(found.values()) if all(found.values()) else []
    tuned = [each for (_, collector), each in found.items() if collector == "rare" and every]
    claims = [
        Claim("memory per run", worst(every, "bytes"), 4096, unit=" B"),
        Claim("more threads", worst(every, "threads"), 0, unit=""),
        Claim("served, cancelled or failed", worst(every, "end"), 5, unit=" s"),
        Claim("p99 lag meanwhile, full collections rare", worst(tuned, "lag", 1e3), 5, unit=" ms"),
        Claim("p99 lag meanwhile, Python's default", worst(every, "lag", 1e3), 5, unit=" ms"),
    ]
    note = (
        "collector rare: gc.freeze() after the warm-up and gc.set_threshold(700, 10, 1_000_000), as services with so "
        "many waiters do; by default full passes over a million objects hold the loop"
    )
    title = f"{PENDING} runs pending in dequeue, then all served, cancelled or failed"
    return Row(title, figures | {f"TensorFlow, {THEIRS}": told(theirs)}, claims, [note])


async def measured(*words: Any) -> dict[str, float]:
    """Return the medians of the figures of `benchmarks.pending`; nothing if it fails."""
    found = [await measured_once(*words) for _ in range(ROUNDS)]
    return {what: statistics.median([each[what] for each in found]) for what in found[0]} if all(found) else {}


async def measured_once(*words: Any) -> dict[str, float]:
    """Return its figures once."""
    command = [sys.executable, "-m", "benchmarks.pending", *map(str, words)]
    quiet = asyncio.subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE, stderr=quiet)
    output, _ = await process.communicate()
    if process.returncode:
        return {}
    found: dict[str, float] = json.loads(output.splitlines()[-1])
    return found


def told(found: dict[str, float]) -> str:
    """Return one line of the figures."""
    if not found:
        return "failed, or not installed"
    lag = f", p99 lag {span(found['lag'])} (idle loop {span(found['idle'])})" if found["lag"] else ""
    began = f"{found['bytes']:.0f} B each, {found['threads']:.0f} more threads, begun in {span(found['begin'])}"
    return f"{began}, ended in {span(found['end'])}{lag}"


def worst(found: list[dict[str, float]], what: str, scale: float = 1.0) -> float | None:
    """Return the largest of a figure, None if there is none."""
    return max((each[what] * scale for each in found), default=None)
