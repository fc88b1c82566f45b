"""A process that keeps many runs pending in dequeue, then serves or cancels them all, and prints what that took.

    python -m benchmarks.pending aioflow 100000 serve off

The last word says whether Python's cyclic collector is on. Its full collections look at every object there is: with a
million of them they hold the loop for hundreds of milliseconds, whoever made them.
"""

import asyncio
import gc
import json
import os
import sys
import threading
import time
from typing import Any

import numpy as np

from benchmarks import peers
from benchmarks.harness import percentile
from benchmarks.lag import beat

AT_A_TIME = 50
"""So many runs are begun, or cancelled, in one turn of the loop."""


def resident() -> int:
    """The bytes of this process that are in memory."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def with_aioflow(count: int, cancel: bool) -> dict[str, float]:
    """`count` pending `session.run(queue.dequeue())`."""
    af = peers.aioflow()
    graph = af.Graph()
    with graph.as_default():
        queue = af.FIFOQueue(-1, af.float32, [[]])
        values = af.placeholder(af.float32, [None])
        put, take = queue.enqueue_many(values), queue.dequeue()
    async with af.Session(graph=graph) as session:
        await session.run(put, {values: [0.0]})
        await session.run(take)
        live = session.queue(queue)
        gc.collect()
        late: list[float] = []
        heart = asyncio.create_task(beat(late))
        await asyncio.sleep(0.5)
        idle = percentile(late, 0.99)
        late.clear()
        before, threads, begin = resident(), threading.active_count(), time.perf_counter()
        tasks: list[asyncio.Task[Any]] = []
        while len(tasks) < count:
            tasks += [asyncio.create_task(session.run(take)) for _ in range(AT_A_TIME)]
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert live.statistics().taking == count
        begun, after = time.perf_counter(), resident()
        found = {"bytes": (after - before) / count, "threads": threading.active_count() - threads}
        if cancel:
            for first in range(0, count, AT_A_TIME):
                for task in tasks[first : first + AT_A_TIME]:
                    task.cancel()
                await asyncio.sleep(0)
        else:
            await session.run(put, {values: np.arange(count, dtype=np.float32)})
        for task in tasks:
            if not task.done():
                await asyncio.wait([task])
        ended = time.perf_counter()
        heart.cancel()
        statistics = live.statistics()
        expected = [True] * count if cancel else list(range(count))
        assert [task.cancelled() if cancel else task.result() for task in tasks] == expected
        assert (statistics.taking, statistics.size) == (0, 0)
    return found | {"begin": begun - begin, "end": ended - begun, "lag": percentile(late, 0.99), "idle": idle}


def with_tensorflow(count: int, cancel: bool) -> dict[str, float]:
    """The same: TensorFlow's `run` blocks, so that each needs a thread of its own."""
    tf = peers.tensorflow()
    with tf.Graph().as_default(), tf.Session() as session:
        queue = tf.FIFOQueue(-1, tf.float32, [[]])
        put, take = queue.enqueue_many([np.arange(count, dtype=np.float32)]), queue.dequeue()
        session.run(put)
        for _ in range(count):
            session.run(take)
        before, threads, begin = resident(), native_threads(), time.perf_counter()
        runs = [threading.Thread(target=session.run, args=(take,)) for _ in range(count)]
        for run in runs:
            run.start()
        time.sleep(1)
        begun, after = time.perf_counter(), resident()
        found = {"bytes": (after - before) / count, "threads": native_threads() - threads}
        session.run(put)
        for run in runs:
            run.join()
        ended = time.perf_counter()
    return found | {"begin": begun - begin, "end": ended - begun, "lag": 0.0, "idle": 0.0}


def native_threads() -> int:
    """All threads of this process, whoever made them."""
    return len(os.listdir("/proc/self/task"))


def main() -> None:
    """Measure and print."""
    side, count, ending, collector = sys.argv[1:]
    if collector == "off":
        gc.disable()
    if side == peers.TENSORFLOW:
        print(json.dumps(with_tensorflow(int(count), ending == "cancel")))
    else:
        print(json.dumps(asyncio.run(with_aioflow(int(count), ending == "cancel"))))


if __name__ == "__main__":
    main()
