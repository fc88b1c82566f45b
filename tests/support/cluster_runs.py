"""Programs run on a simulated cluster while things go wrong, and what has to hold after each run.

AIOFLOW_SEEDS sets the number of seeds of each program; AIOFLOW_SEED names a single one, to replay it.
"""

import asyncio
import contextlib
import os
import random
import re
import traceback

import numpy as np
import pytest

import aioflow as af
from aioflow import errors
from aioflow.net.master import fan_out
from aioflow.testing import VirtualTimeLoop, cluster, current_host, no_pending_tasks, on_host
from aioflow.testing.loop import describe
from tests.support.scale import amount

ONE = os.environ.get("AIOFLOW_SEED")
COUNT = 1 if ONE else amount(3, 200, "AIOFLOW_SEEDS")
FIRST = int(ONE) if ONE else 0 if "CI" in os.environ else int.from_bytes(os.urandom(4))
BLOCK = 40
"""So many seeds make one test."""

SILENCE = 5.0
"""Seconds after which a silent peer is lost; a fifth of it may pass until that is noticed."""
LONGEST = 300.0
HOLDING = ("pause", "block")
"""Mishaps that hold up a host."""
NOTICED = SILENCE * 1.2 + 0.5
"""So long after all is well again everything has been noticed that was lost without a word."""
LATE = 0.5
"""So late may a step end after its deadline: it needs nobody's answer for that."""
LINGERING = re.compile(r"answer \d|receiving |dial |registering|opening")
"""Names of tasks that do something for a step or a session."""
_SOMEBODY = r"/job:|master|worker\d|ps\d"
NAMED = {
    errors.UnavailableError: _SOMEBODY,
    errors.AbortedError: _SOMEBODY,
    errors.DeadlineExceededError: r"/job:|master|worker\d|ps\d|the step",
    errors.FailedPreconditionError: "is not initialized",
}
"""What mishaps may cause, and what such an error says."""


def every_seed(test):
    """Run the test with blocks of seeds."""
    return _seeded(test, COUNT, BLOCK)


def every_fourth_seed(test):
    """Run the test with a quarter of the seeds, for each of its runs is a whole training."""
    return _seeded(test, max(1, COUNT // 4), BLOCK // 4)


def _seeded(test, count, block):
    blocks = [range(FIRST + start, FIRST + min(start + block, count)) for start in range(0, count, block)]
    each = pytest.mark.parametrize("seeds", blocks, ids=[f"block{index}" for index in range(len(blocks))])
    return pytest.mark.slow(each(test))


def survives(seeds, program, **options):
    """Run the program with each seed. The one that fails is named, with the command that replays it."""
    test = os.environ["PYTEST_CURRENT_TEST"].split("[")[0].removesuffix(" (call)")
    for seed in seeds:
        try:
            with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
                runner.run(_checked(seed, program, **options))
        except Exception as error:
            error.add_note(f"to replay this run: AIOFLOW_SEED={seed} pytest '{test}'")
            raise


async def _checked(seed, program, spec=None, py_funcs=None, **options):
    unseen = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: unseen.append(context))
    with no_pending_tasks(), tasks_ask_each_other(bool(seed % 2)):
        functions = {"incarnation": lambda: np.int32(simulated.starts(current_host())), **(py_funcs or {})}
        async with cluster(
            spec or {"ps": 1, "worker": 2}, seed, latency=1e-3, py_funcs=functions, **options
        ) as simulated:
            run = Run(simulated, seed)
            with on_host("client"):
                task = asyncio.create_task(program(run), name="program")
            await asyncio.wait((task,), timeout=LONGEST)
            if not task.done():
                raise AssertionError(f"after {LONGEST:g} s it still waits:\n{describe(task)}")
            task.result()
            await run.settled()
    assert not unseen, f"nobody has seen an error: {unseen}"


@contextlib.contextmanager
def tasks_ask_each_other(wanted=True):
    """Masters ask one task for its share of a step, and that task asks the next one; or masters ask each task."""
    with pytest.MonkeyPatch.context() as patch:
        if wanted:
            patch.setattr(fan_out, "MOST", 1)
            patch.setattr(fan_out, "WIDTH", 1)
        yield


class Run:
    """One run of a program.

    Attributes:
        cluster: the cluster.
        random: draws what the program does at random.
        over: when all is well again.
        paused: for how long the client's host stops at most: its timers are late by as much.
    """

    def __init__(self, simulated, seed):
        self.cluster = simulated
        self.random = random.Random(f"{seed} program")
        self.over = simulated.began + max([mishap.at + mishap.seconds for mishap in simulated.mishaps], default=0.0)
        held = [mishap for mishap in simulated.mishaps if mishap.kind in HOLDING and "client" in mishap.hosts]
        self.paused = sum(mishap.seconds for mishap in held)

    def session(self, graph, job="worker", index=0, client="client"):
        """A session whose master is that task."""
        return af.Session(self.cluster.target(job, index, client), graph=graph)

    async def step(self, session, fetches, feeds=None, *, limit=2.0):
        """What a step came to: a value or an OpError, in time.

        Without a limit in seconds that is when all is well again, and what was lost without a word has been noticed.
        """
        now = asyncio.get_running_loop().time
        due = max(now(), self.over) + NOTICED if limit is None else now() + limit + self.paused + LATE
        try:
            outcome = await session.run(fetches, feeds, options=af.RunOptions(timeout=limit))
        except errors.OpError as error:
            outcome = error
            self._check(error)
        assert now() <= due, f"a step that had {limit} s ended {now() - due:.3f} s later than it may"
        return outcome

    def _check(self, error):
        """The error is one of those that mishaps may cause, and names what it is about."""
        pattern = NAMED.get(type(error))
        text = "".join(traceback.format_exception(error))
        assert pattern is not None, text
        assert re.search(pattern, str(error)), text

    async def until(self, session, fetches, feeds=None, tries=3):
        """The value of a step that may fail a few times, for as many things may be gone, but not for ever."""
        for _ in range(tries):
            outcome = await self.step(session, fetches, feeds, limit=5.0)
            if not failed(outcome):
                return outcome
        raise AssertionError(f"it still fails after {tries} times") from outcome

    async def counted(self, session, variable):
        """The value of a variable; None if it is gone."""
        for _ in range(3):
            outcome = await self.step(session, variable)
            if isinstance(outcome, errors.FailedPreconditionError):
                return None
            if not failed(outcome):
                return int(outcome)
        raise AssertionError("it still fails after 3 times") from outcome

    async def settled(self):
        """Nothing is left any more, and nothing comes late, when who dials a host that says nothing has given up."""
        for _ in range(int(SILENCE * 2.4)):
            await asyncio.sleep(1.0)
            if not self._left():
                break
        await asyncio.sleep(1.0)
        self.nothing_held()

    def nothing_held(self):
        """No server that runs has anything left of a step or a session, and no task does anything for one."""
        left = self._left()
        assert not left, f"left behind: {left}"

    def _left(self):
        lingering = [task.get_name() for task in asyncio.all_tasks() if LINGERING.match(task.get_name())]
        return self.cluster.held() + lingering

    async def calm(self):
        """All is well again, and what was lost without a word has been noticed."""
        await self.cluster.calm()
        await asyncio.sleep(SILENCE * 1.2)

    async def at_random(self, longest):
        """Some time passes."""
        await asyncio.sleep(self.random.uniform(0.0, longest))


def failed(outcome):
    """Whether that is no value."""
    return isinstance(outcome, BaseException)


async def together(*work):
    """What each comes to. All are waited for, whatever happens."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(each) for each in work]
    return [task.result() for task in tasks]


@contextlib.contextmanager
def new_graph():
    """A graph to build in."""
    with af.Graph().as_default() as graph:
        yield graph
