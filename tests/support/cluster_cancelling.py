"""Steps over processes that are cancelled at random, and what is counted afterwards."""

import asyncio
import random

import numpy as np

import aioflow as af
from aioflow import errors
from aioflow.net.wire.limits import Limits
from tests.support.cluster_processes import PS, SECOND, Processes, soon

AT_A_TIME = 20
TOKENS = 10
LATEST = 0.05
"""Seconds after which a step is cancelled, at most."""


class Steps:
    """Steps of several kinds, each with its feeds: most end by themselves, in time or too late, and some never."""

    def __init__(self) -> None:
        with af.Graph().as_default() as self.graph:
            x = af.placeholder(af.float32, [None])
            with af.device(PS):
                queue = af.FIFOQueue(1000, af.float32, shapes=[[]], name="tokens")
                empty = af.FIFOQueue(1, af.float32, shapes=[[]], name="empty")
                self.put, self.size, element = queue.enqueue(1.0), queue.size(), queue.dequeue()
                here, never = x * 2.0, empty.dequeue()
            with af.device(SECOND):
                there, waiting = af.reduce_sum(here + 1.0), never + 1.0
                again = queue.enqueue(element)
            small, large = np.ones(10, np.float32), np.ones(100_000, np.float32)
            self.kinds = [
                (there, {x: small}), (there, {x: large}), (here, {x: large}), (waiting, {}), (again, {}),
                (_endless(), {}),
            ]  # fmt: skip
            self._sum, self._x, self._small = there, x, small

    async def check(self, session: af.Session) -> None:
        """The session works."""
        assert await session.run(self._sum, {self._x: self._small}) == 30


def _endless() -> af.Tensor:
    """A loop over two tasks."""

    def body(i: af.Tensor) -> af.Tensor:
        with af.device(PS):
            i = i + 1
        with af.device(SECOND):
            return i + 1

    return af.while_loop(lambda i: i >= 0, body, [0])


async def cancel_at_random(cluster: Processes, cancels: int, seed: int) -> int:
    """Cut so many steps short, among others that end by themselves, and see that nothing is left.

    The first worker is a server of this process, so that what it has of its peers can be counted too. Returns how many
    steps ended by themselves.
    """
    steps = Steps()
    async with af.train.Server(cluster.spec, "worker", 0) as server:
        async with af.Session(server.target, graph=steps.graph) as session:
            for _ in range(TOKENS):
                await session.run(steps.put)
            tokens = await session.run(steps.size)
            await steps.check(session)
            ended = await _cut(session, steps, cancels, random.Random(seed))
            await cluster.nothing_runs()
            await soon(lambda: _left(server))
            await steps.check(session)
            assert await session.run(steps.size) <= tokens
        await cluster.nothing_left()
    return ended


async def _cut(session: af.Session, steps: Steps, cancels: int, rng: random.Random) -> int:
    cut = ended = 0

    async def one() -> None:
        nonlocal cut, ended
        fetch, feeds = rng.choice(steps.kinds)
        after = rng.random() * LATEST
        options = af.RunOptions(timeout=max(after, 1e-4)) if rng.random() < 0.3 else None
        try:
            async with asyncio.timeout(None if options else after):
                await session.run(fetch, feeds, options)
            ended += 1
        except (TimeoutError, errors.DeadlineExceededError):
            cut += 1

    while cut < cancels:
        await asyncio.gather(*[one() for _ in range(AT_A_TIME)])
    return ended


async def _left(server: af.train.Server) -> list[str]:
    """What is left of requests between the server and its peers."""
    peers = [*server._acceptor.peers.values(), *server._master._peers._peers.values()]
    found = [peer.statistics for peer in peers]
    busy = [one for one in found if one.asked + one.serving + one.held + one.arriving]
    poor = [one for one in found if min(one.credit) < Limits().window * 7 // 8]  # less is told of at once
    return [*map(repr, busy + poor), *map(str, server._worker.step_table.open)]
