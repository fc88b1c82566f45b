"""Steps of four replicas of which one, drawn at random, is five times slower, with one of the four as a backup.

Drawn after six steps, a slow one has just had the time to be done: one is slow at nearly any time, and never two. Drawn
in each step, some still compute what comes too late while others are drawn: with two of four slow at once, and one
backup, a step has to wait. What a step computes is a timer: first on the virtual clock of the simulated cluster, where
nothing else takes time but a millisecond for each message, and then with processes.
"""

import asyncio
from collections.abc import AsyncIterator

from benchmarks.replica import SIZES, SLOWER, WORKERS, Done, Plan, Replica, compute, together
from benchmarks.report import Claim, Row, span

STEPS, SECONDS = 100, 0.05
LATENCY = 1e-3
LONGER = 1.2
ALIKE, ONE, EACH = "none slower", "one slower at a time", "one drawn in each step"
DRAWN = {ALIKE: 0, ONE: SLOWER + 1, EACH: 1}


async def rows() -> AsyncIterator[Row]:
    """Simulated, then processes."""
    yield row("simulated", await asyncio.to_thread(simulated))
    yield row("processes", {title: await together(plan) for title, plan in plans(WORKERS - 1).items()})


def plans(required: int) -> dict[str, Plan]:
    return {title: Plan(required, STEPS, SECONDS, drawn) for title, drawn in DRAWN.items()}


def simulated() -> dict[str, list[Done]]:
    """What the chief takes part in, on a loop of its own; without a backup, too."""
    from aioflow.testing import VirtualTimeLoop

    found = {}
    for required, beside in ((WORKERS - 1, ""), (WORKERS, ", no backup")):
        for title, plan in plans(required).items():
            with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
                found[title + beside] = runner.run(simulate(plan))
    return found


async def simulate(plan: Plan) -> list[Done]:
    from aioflow.testing import cluster

    clients = [f"client{task}" for task in range(WORKERS)]
    replicas = [Replica(task, plan) for task in range(WORKERS)]
    clock = asyncio.get_running_loop().time
    async with cluster(SIZES, latency=LATENCY, clients=clients, py_funcs={"compute": compute}) as found:
        async with asyncio.TaskGroup() as group:
            training = [
                group.create_task(replica.work(found.target("worker", task, clients[task]), clock))
                for task, replica in enumerate(replicas)
            ]
        return training[0].result()


def row(where: str, found: dict[str, list[Done]]) -> Row:
    """Seconds of a step, and by how much they grow."""
    steps = {title: step(done) for title, done in found.items()}
    figures = {title: f"{span(seconds)}, {seconds / steps[ALIKE]:.2f}x" for title, seconds in steps.items()}
    claims = [Claim(f"{ONE} / {ALIKE}", steps[ONE] / steps[ALIKE], LONGER)]
    return Row(f"step of {WORKERS} replicas, one {SLOWER}x slower, one a backup; {where}", figures, claims)


def step(done: list[Done]) -> float:
    """Seconds from the first step that the replica took part in to the last, by the number of steps between."""
    (first, began), (last, ended) = done[0], done[-1]
    return (ended - began) / (last - first)
