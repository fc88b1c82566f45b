"""Clients and masters, as processes, that are killed amid a step: nothing of theirs is left on any task."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys

import pytest

import aioflow as af
from aioflow import errors
from tests.support.cluster_processes import FIRST, PS, ROOT, SECOND, on_one_loop

pytest_plugins = ["tests.support.three_processes"]
pytestmark = [pytest.mark.sockets, pytest.mark.slow]
PROMISED = 5.0
"""Seconds after which nothing is left of a client or a master that died."""


def build():
    """A step that waits on two tasks for an element of a shared queue; how to put one, and to count them."""
    with af.Graph().as_default() as graph:
        with af.device(PS):
            queue = af.FIFOQueue(10, af.float32, shapes=[[]], shared_name="shared")
            element, put, size = queue.dequeue(), queue.enqueue(1.0), queue.size(name="size")
        with af.device(SECOND):
            af.identity(element, name="taken")
    return graph, put, size


async def client(target):
    """Run a step that never ends."""
    graph, _, _ = build()
    async with af.Session(target, graph=graph) as session:
        await session.run("taken:0")


@contextlib.contextmanager
def a_client(target):
    """A client as a process, amid a step."""
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    with subprocess.Popen([sys.executable, __file__, target], env=environment) as process:
        try:
            yield process
        finally:
            process.kill()


async def check_nothing_is_left_of_a_client(cluster, number):
    """When it was sent that signal amid a step."""
    graph, put, size = build()
    with a_client(cluster.target()) as process:
        await cluster.running(PS, SECOND)
        process.send_signal(number)
        assert await cluster.nothing_left() < PROMISED + 1.5  # what was just heard of it counts
    async with af.Session(cluster.target(), graph=graph) as session:
        await session.run(put)
        assert await session.run(size) == 1  # nobody who is gone has taken it
        assert await session.run("taken:0") == 1


@on_one_loop
async def test_of_a_client_that_is_killed_nothing_is_left(cluster):
    await check_nothing_is_left_of_a_client(cluster, signal.SIGKILL)


async def test_of_a_master_that_is_killed_nothing_is_left_and_the_session_finds_the_new_one(cluster):
    graph, put, size = build()
    async with af.Session(cluster.target(FIRST), graph=graph) as session:
        step = asyncio.ensure_future(session.run("taken:0"))
        await cluster.running(PS, SECOND)
        cluster.kill(FIRST)
        with pytest.raises(errors.UnavailableError, match=f"{FIRST}.* (lost|ended)"):
            await step
        assert await cluster.nothing_left(PS, SECOND) < PROMISED
        await cluster.start(FIRST)
        await session.run(put)
        assert await session.run(size) == 1
        assert await session.run("taken:0") == 1
    await cluster.nothing_left()


if __name__ == "__main__":
    asyncio.run(client(sys.argv[1]))
