"""A process that keeps many runs pending in dequeue, then serves, cancels or fails them all, and prints the costs.

    python -m benchmarks.pending aioflow 100000 serve rare

The last word configures Python's cyclic collector, whose full passes visit all objects: with a million objects they
block the loop for hundreds of milliseconds, whichever code created the objects. `default` is Python's setting. `rare`
is the setting of a service with many waiters: after warming up it freezes its objects; from then on the collector
visits only young objects and makes no full passes. Runs lose nothing by that: they leave no cycles.
"""

import argparse
import asyncio
import gc
import json
import os
import threading
import time
from typing import Any

import numpy as np

from benchmarks import peers
from benchmarks.harness import percentile
from benchmarks.lag import beat

AT_A_TIME = 50
"""Number of runs that begin, or are cancelled, in one turn of the loop."""
ENDINGS = ("serve", "cancel", "fail")
COLLECTORS = ("default", "rare")


def resident() -> int:
    """Return the resident bytes of this process."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def make_full_passes_rare() -> None:
    """Exempt the present objects from collection, and make full passes rare."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*gc.get_threshold()[:2], 1_000_000)


async def with_aioflow(count: int, ending: str, collector: str) -> dict[str, float]:
    """Keep `count` calls of `session.run(queue.dequeue())` pending."""
    af = peers.aioflow()
    graph = af.Graph()
    with graph.as_default():
        queue = af.FIFOQueue(-1, af.float32, [[]])
        values = af.placeholder(af.float32, [None])
        put, take, close = queue.enqueue_many(values), queue.dequeue(), queue.close()
    async with af.Session(graph=graph) as session:
        await session.run(put, {values: [0.0]})
        await session.run(take)
        live = session.queue(queue)
        gc.collect()
        if collector == "rare":
            make_full_passes_rare()
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
        if ending == "serve":
            await session.run(put, {values: np.arange(count, dtype=np.float32)})
        elif ending == "fail":
            await session.run(close)
        for first in range(0, count, AT_A_TIME):
            if ending == "cancel":
                for task in tasks[first : first + AT_A_TIME]:
                    task.cancel()
            await asyncio.wait(tasks[first : first + AT_A_TIME])
        ended = time.perf_counter()
        heart.cancel()
        statistics = live.statistics()
        expected = {"serve": list(range(count)), "cancel": [True] * count, "fail": [af.errors.OutOfRangeError] * count}
        assert [outcome(task) for task in tasks] == expected[ending]
        assert (statistics.taking, statistics.size) == (0, 0)
    return found | {"begin": begun - begin, "end": ended - begun, "lag": percentile(late, 0.99), "idle": idle}


def outcome(task: "asyncio.Task[Any]") -> Any:
    """Return the value, the class of the error, or that the run was cancelled."""
    return True if task.cancelled() else type(task.exception()) if task.exception() else task.result()


def with_tensorflow(count: int) -> dict[str, float]:
    """Do the same with TensorFlow, whose `run` blocks, so that each run needs its own thread."""
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
    """Return the number of threads of this process, including those of libraries."""
    return len(os.listdir("/proc/self/task"))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pending", description=__doc__)
    parser.add_argument("side", choices=(peers.AIOFLOW, peers.TENSORFLOW))
    parser.add_argument("count", type=int)
    parser.add_argument("ending", choices=ENDINGS, nargs="?", default="serve")
    parser.add_argument("collector", choices=COLLECTORS, nargs="?", default="default")
    options = parser.parse_args()
    if options.side == peers.TENSORFLOW:
        print(json.dumps(with_tensorflow(options.count)))
    else:
        print(json.dumps(asyncio.run(with_aioflow(options.count, options.ending, options.collector))))


if __name__ == "__main__":
    main()
