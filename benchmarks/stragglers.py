"""Steps of four replicas of which one, drawn at random, is five times slower, with one of the four as a backup.

Drawn after six steps, a slow replica has just had time to finish: one is slow at nearly any time, and never two. Drawn
in each step, some replicas still compute late gradients while others are drawn: with two of four slow at once, and one
backup, a step has to wait. A timer stands for the computation: first on the virtual clock of the simulated cluster,
where only messages take time, a millisecond each, and then with processes.
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
    """Measure simulated, then with processes."""
    yield row("simulated", await asyncio.to_thread(simulated))
    yield row("processes", {title: await together(plan) for title, plan in plans(WORKERS - 1).items()})


def plans(required: int) -> dict[str, Plan]:
    return {title: Plan(required, STEPS, SECONDS, drawn) for title, drawn in DRAWN.items()}


def simulated() -> dict[str, list[Done]]:
    """Return the chief's steps on a new loop, with and without a backup."""
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
    """Return the row of the seconds of a step, and of the growth."""
    steps = {title: step(done) for title, done in found.items()}
    figures = {title: f"{span(seconds)}, {seconds / steps[ALIKE]:.2f}x" for title, seconds in steps.items()}
    claims = [Claim(f"{ONE} / {ALIKE}", steps[ONE] / steps[ALIKE], LONGER)]
    return Row(f"step of {WORKERS} replicas, one {SLOWER}x slower, one a backup; {where}", figures, claims)


def step(done: list[Done]) -> float:
    """Return seconds between the first and the last step of the replica, by the number of steps between."""
    (first, began), (last, ended) = done[0], done[-1]
    return (ended - began) / (last - first)
