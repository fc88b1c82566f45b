"""The threads of OpenMP: which thread of the process has some, in a process of its own."""

import os
import subprocess
import sys

import pytest

from aioflow.devices import onednn

needs_library = pytest.mark.skipif(not onednn.available(), reason="oneDNN is not installed, or is switched off")

COUNTING = """
import asyncio, itertools, os, time
import numpy as np
import aioflow as af
from aioflow.devices import onednn, openmp

with af.Graph().as_default():
    product = af.matmul(af.ones([1024, 1024]) * 2.0, af.ones([1024, 1024]))
values, result = np.ones((1024, 1024), np.float32), np.empty((1024, 1024), np.float32)

ticks = itertools.count(0, 2e-4)

def threads():
    return len(os.listdir("/proc/self/task"))

def compute():
    onednn.library().sgemm(
        b"N", b"N", 1024, 1024, 1024, 1.0, values.ctypes.data, 1024, values.ctypes.data, 1024, 0.0,
        result.ctypes.data, 1024,
    )

def end_and_start():
    before = threads()
    for _ in range(3):
        compute()
        assert threads() == before + 2
        openmp.end()
        assert threads() == before

async def leave_the_loop():
    compute()
    async with af.Session(graph=product.graph) as session:
        assert (await session.run(product))[0, 0] == 2048
        during = threads()
        openmp.end()
        assert threads() == during  # the loop had none left

async def leave_a_session():
    async with af.Session(graph=product.graph) as first, af.Session(graph=product.graph) as second:
        await first.run(product)
        alone = threads()
        await second.run(product)
        for session in (first, second):  # one call after the other on each thread
            await session._state.devices[0].compute.run(lambda: None, "nothing")
        assert threads() == alone + 1  # the second compute thread; the first one has given up two others
        await first.run(product)
        await second._state.devices[0].compute.run(lambda: None, "nothing")
        assert threads() == alone + 1

async def take_over():
    with af.Graph().as_default():
        row = af.placeholder(af.float32, [1, 1024])
        answer = af.matmul(row, af.ones([1024, 1024]) * 2.0)
    async with af.Session(graph=answer.graph) as session:
        slices, threads_of_device = session._state.slice, session._state.devices[0].compute
        slices.clock = lambda start=time.perf_counter(): start + next(ticks)  # each run takes 0.2 ms
        for _ in range(10):
            await session.run(answer, {row: values[:1]})
        alone = threads()
        openmp.hand_to(threads_of_device)
        await threads_of_device.run(compute, "a product")
        assert threads() == alone  # the loop's two have ended
        await session.run(answer, {row: values[:1]})
        await threads_of_device.run(lambda: None, "nothing")
        assert threads() == alone and openmp.is_taken(threads_of_device)

openmp.end()
assert onednn.loaded() is None  # nothing was loaded for that
end_and_start()
asyncio.run(leave_the_loop())
asyncio.run(leave_a_session())
asyncio.run(take_over())
"""


@needs_library
@pytest.mark.skipif(not os.path.exists("/proc/self/task"), reason="the system does not count threads")
def test_the_threads_of_a_caller_end_when_it_asks_and_when_another_takes_over():
    arguments = [sys.executable, "-c", COUNTING]
    run = subprocess.run(arguments, capture_output=True, text=True, env=os.environ | {"OMP_NUM_THREADS": "3"})
    assert run.returncode == 0, run.stderr
