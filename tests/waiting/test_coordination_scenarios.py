"""Barriers, staging areas and accumulators beside TensorFlow's: a table that TensorFlow filled in.

See `data/make_coordination_scenarios.py`, which makes it.
"""

import asyncio
import json
import pathlib

import pytest

import aioflow as af
from aioflow import errors

TABLE = json.loads((pathlib.Path(__file__).parents[1] / "data" / "coordination_scenarios.json").read_text())
INVALID = {"error": "InvalidArgumentError"}
FIRST = -(1 << 63)
BETTER = {
    ("a small batch that was waited for before closing waits for incomplete ones", 5): (
        {"value": [[FIRST, FIRST], ["a", "b"], [[1.0, 2.0], [3.0, 4.0]]]},
        "TensorFlow's waits for ever",
    ),
    ("an element leaves in parts", 4): (INVALID, "the same, but what is refused takes nothing"),
    ("an element leaves in parts", 5): ({"value": [5, [1.0]]}, "TensorFlow's refusal has taken it"),
    ("an element leaves in parts", 6): ({"value": 0}, "TensorFlow keeps an element of which nothing is left"),
}


def plain(value):
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    return value.decode() if isinstance(value, bytes) else value


def typed(value):
    if isinstance(value, dict):
        ((dtype, content),) = value.items()
        return af.constant(content, dtype)
    return [typed(item) for item in value] if isinstance(value, list) else value


class Scenario:
    """One object, its methods called in runs of their own."""

    def __init__(self, session, kind, options):
        self.session = session
        self.object = getattr(af, kind)(**options)
        self.tasks = {}

    async def run(self, method, arguments):
        try:
            given = {key: typed(value) for key, value in arguments.items()}
            async with asyncio.timeout(100):
                return {"value": plain(await self.session.run(getattr(self.object, method)(**given)))}
        except (TypeError, ValueError):
            return INVALID
        except errors.OpError as error:
            return {"error": type(error).__name__}

    async def start(self, label, method, arguments):
        task = self.tasks[label] = asyncio.create_task(self.run(method, arguments))
        await asyncio.sleep(1)
        return task.result() if task.done() else None

    async def join(self, label):
        return await self.tasks[label]


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row["name"])
async def test_what_tensorflow_does(row):
    with af.Graph().as_default() as graph:
        async with af.Session(graph=graph) as session:
            scenario = Scenario(session, row["kind"], row["options"])
            for number, ((how, *step), expected) in enumerate(row["steps"]):
                found = await getattr(scenario, how)(*step)
                better = BETTER.get((row["name"], number))
                assert found == (expected if better is None else better[0]), (number, how, step)


def test_every_difference_is_in_the_table():
    rows = {row["name"]: row["steps"] for row in TABLE}
    for (name, number), (_, reason) in BETTER.items():
        assert len(rows[name]) > number, reason
