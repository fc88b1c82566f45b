"""The same with real processes, each of which is killed once at some step, by SIGKILL, while steps are under way."""

import asyncio
import random

import pytest

import aioflow as af
from tests.support.cluster_processes import Processes, addresses, on_one_loop
from tests.train.test_killed_training import SPEC, STEPS, begun_from, restored_by_hand, train

TASKS = [f"/job:{job}/replica:0/task:{index}" for job, index in [("ps", 0), ("ps", 1), ("worker", 0), ("worker", 1)]]


@pytest.mark.sockets
@pytest.mark.long
@on_one_loop
async def test_the_losses_after_a_process_was_killed_are_those_of_a_run_restored_by_hand(tmp_path):
    victims, lives, seen, killing = dict(zip(random.sample(range(1, STEPS), 3), TASKS[1:], strict=True)), [], [], []
    with Processes(addresses(SPEC), options=lambda task: ["--file-root", str(tmp_path)]) as processes:

        async def kill(task):
            processes.kill(task)
            await processes.start(task)

        async def after_each():
            """Kill who is to be killed at the next step, which begins at once."""
            seen.append(None)
            task = victims.pop(len(seen), None)
            if task is not None:
                killing.append(asyncio.create_task(kill(task)))

        with af.Graph().as_default():
            await train(processes.target(), str(tmp_path), lives, after_each)
        await asyncio.gather(*killing)
        assert not victims
        assert {number for _, _, losses in lives for number, _ in losses} == set(range(STEPS))
        for path, _, losses in begun_from(lives):
            curve = await restored_by_hand(processes.target(), path or f"{tmp_path}/model.ckpt-0")
            for number, found in losses:
                assert found == curve[number], f"step {number} after {path}"
