"""The recording of a training on a simulated cluster, one of whose tasks is killed and comes back."""

import asyncio
import contextlib
import io
import math
import tempfile
from unittest.mock import patch

import numpy as np

import aioflow as af
from aioflow.dashboard import monitor, sampling
from aioflow.dashboard.recording import record
from aioflow.testing import VirtualTimeLoop, cluster

SECONDS = 30.0
KILLED, BACK = 8.0, 12.0
"""When the task is killed, and when it is back."""
_EPOCH = 1_767_225_600.0


def model():
    """Means of noise, over a parameter server and two workers, and a queue that nobody fills."""
    af.set_random_seed(1)
    with af.device("/job:ps/task:0"):
        step = af.train.get_or_create_global_step()
        weights = af.Variable(np.linspace(-1, 1, 32).astype(np.float32), name="model/weights")
        queue = af.FIFOQueue(8, [af.float32], shapes=[[]], name="numbers")
        take = queue.dequeue(name="take")
    losses = []
    for task in range(2):
        with af.device(f"/job:worker/task:{task}"), af.name_scope(f"replica{task}"):
            noise = af.random_normal([32], stddev=0.3, seed=task)
            losses.append(af.reduce_mean(af.square(weights - float(task) + noise), name="loss"))
    loss = af.add_n(losses, name="loss")
    train = af.train.GradientDescentOptimizer(0.15).minimize(loss, global_step=step)
    af.summary.scalar("loss", loss)
    af.summary.histogram("weights", weights)
    pixels = af.cast(af.reshape(af.clip_by_value(weights * 120.0 + 120.0, 0.0, 255.0), [1, 4, 8, 1]), af.uint8)
    af.summary.image("weights", pixels)
    return loss, train, take


@contextlib.contextmanager
def unpaced():
    """Inside, monitors look and trace as often as they may, at any cost."""
    with (
        patch.object(monitor, "_SHARE", 0.0),
        patch.object(sampling, "_TRACE_SHARE", 0.0),
        patch.object(sampling, "_TRACEABLE", math.inf),
    ):
        yield


def record_training(path, until=SECONDS):
    """Write the recording. No real time passes."""
    with unpaced(), tempfile.TemporaryDirectory() as folder, asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(_train(path, folder, until))


async def _train(path, folder, until):
    loop = asyncio.get_running_loop()
    with af.Graph().as_default():
        loss, train, take = model()
        config = af.Config(file_roots=[folder], track_memory=True)
        hooks = [
            af.train.ProgressHook(loss, progress=af.train.Progress(total_steps=400, stream=io.StringIO())),
            af.train.SummarySaverHook(save_steps=20, summary_op=af.summary.merge_all()),
        ]
        async with (
            cluster({"ps": 1, "worker": 2}, latency=2e-3, config=config) as simulated,
            af.train.MonitoredTrainingSession(
                simulated.target("worker", 0), checkpoint_dir=folder, save_checkpoint_steps=50, hooks=hooks,
                save_checkpoint_secs=None, save_summaries_steps=None, save_summaries_secs=None,
                log_step_count_steps=None, max_wait_secs=60.0,
            ) as session,
            record(session, path, lambda: _EPOCH + loop.time()),
        ):  # fmt: skip
            killing = asyncio.create_task(_kill(simulated))
            waiting = asyncio.create_task(_take(session, take))
            while loop.time() < until:
                await session.run([loss, train])
                await asyncio.sleep(0.1)
            await killing
            waiting.cancel()
            await asyncio.wait([waiting])
    return path


async def _kill(simulated):
    await asyncio.sleep(KILLED)
    await simulated.crash("worker", 1)
    await asyncio.sleep(BACK - KILLED)
    await simulated.start("worker", 1)


async def _take(session, take):
    while True:
        try:
            await session.opened.run(take)
        except (af.errors.OpError, RuntimeError):  # the session is closed, or recovers
            await asyncio.sleep(0.5)
