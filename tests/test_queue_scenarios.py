"""TensorFlow's queues and ours, step by step: `tests/data/make_queue_scenarios.py` wrote down what TensorFlow's do."""

import asyncio
import json
from pathlib import Path

import pytest

import aioflow as af
from aioflow import errors

SCENARIOS = json.loads((Path(__file__).parent / "data" / "queue_scenarios.json").read_text())["scenarios"]


def queue_of(spec):
    options = dict(spec)
    kind, capacity, shapes = options.pop("kind"), options.pop("capacity"), options.pop("shapes")
    least = [options.pop("min_after_dequeue")] if "min_after_dequeue" in options else []
    return getattr(af, kind)(capacity, *least, af.int32, shapes, **options)


def operation(queue, kind, *arguments):
    if kind == "cancel":
        return queue.close(cancel_pending_enqueues=True)
    if kind in ("enqueue", "enqueue_many"):
        if isinstance(queue, af.PriorityQueue):
            priority, value = arguments[0]
            return getattr(queue, kind)([af.constant(priority, af.int64), af.constant(value, af.int32)])
        return getattr(queue, kind)([af.constant(arguments[0], af.int32)])
    return getattr(queue, kind)(*arguments)


def plain(value):
    return [plain(item) for item in value] if isinstance(value, list) else getattr(value, "tolist", lambda: value)()


async def settled(task):
    """What it has come to once nothing moves any more: the clock jumps when all wait."""
    await asyncio.sleep(0.25)
    if not task.done():
        return "pending"
    try:
        return plain(task.result())
    except errors.OpError as error:
        return type(error).__name__


@pytest.mark.parametrize("executor", ["regions", "tokens"])
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario["name"])
async def test_steps_come_to_what_they_come_to_in_tensorflow(scenario, executor):
    runs = {}
    with af.Graph().as_default() as graph:
        queue = queue_of(scenario["queue"])
    async with af.Session(graph=graph, config=af.Config(executor=executor)) as session:
        for line in scenario["steps"]:
            step = line["step"]
            ours = step[-1] if isinstance(step[-1], dict) else {}
            what, *arguments = [part for part in step if part is not ours]
            if what == "join":
                task = runs.pop(arguments[0])
            else:
                name = arguments.pop(0) if what == "start" else None
                with graph.as_default():
                    fetched = operation(queue, *arguments)
                options = af.RunOptions(timeout=0.1) if what == "limited" else None
                task = asyncio.create_task(session.run(fetched, options=options))
                if name is not None:
                    runs[name] = task
            assert await settled(task) == ours.get("aioflow", line["result"]), step
        left = session.queue(queue).statistics()
        assert (left.putting, left.taking) == (0, 0)
    assert not runs or all(task.done() for task in runs.values())


def test_the_differences_are_those_that_were_decided():
    marked = {
        step["step"][-1]["why"] for each in SCENARIOS for step in each["steps"] if isinstance(step["step"][-1], dict)
    }
    assert marked <= {
        "a waiting dequeue_many takes nothing until it can take all",
        "dequeue_up_to is the same for all queues",
    }
