"""Serving variables while they are trained: requests see values of one moment, and the training is not disturbed."""

import asyncio

import numpy as np
import pytest

import aioflow as af
from aioflow import errors
from aioflow.resources.containers import VariableState, drop_shared
from aioflow.saved_model import Signature
from aioflow.serving import Models, Replica, http_error
from aioflow.testing import Gate, cluster
from tests.support.doubles import gated
from tests.support.saved_models import GATES, gate_by_name, rows, turns


class Pair:
    """Two variables that the training keeps equal; their difference shows a mix of two steps."""

    def __init__(self, size=1, gate="", container=""):
        self.graph = af.Graph()
        with self.graph.as_default(), self.graph.container(container):
            self.x = af.placeholder(af.float32, [None, 1], name="x")
            self.first = af.Variable(af.zeros([size]), name="first")
            self.second = af.Variable(af.zeros([size]), name="second")
            self.step = af.group(self.first.assign_add(af.ones([size])).op, self.second.assign_add(af.ones([size])).op)
            seen = self.x + self.first[0]
            later = af.reshape(seen, [-1, 1]) if not gate else gate_by_name(seen, gate)
            with self.graph.control_dependencies([later]):
                self.y = af.concat([later, self.x + self.second[0] + 0.0 * later], 1)
            self.init = af.global_variables_initializer()
        self.signatures = {"serving_default": Signature({"x": self.x}, {"y": self.y})}


async def ask(models):
    found = await models.find("pair").infer({"x": rows(0)})
    return found["y"][0].tolist()


async def test_requests_see_whole_versions_while_a_writer_interleaves():
    pair = Pair()
    async with af.Session(graph=pair.graph) as session, Models() as models:
        await session.run(pair.init)
        publication = await models.publish("pair", session, pair.signatures, every=3)
        seen = []

        async def trains():
            for _ in range(60):
                await session.run(pair.step)
                await publication.step()
                await turns()  # in which requests come and go

        async def asks():
            while not training.done():
                seen.append(await ask(models))

        async with asyncio.TaskGroup() as group:
            training = group.create_task(trains())
            for _ in range(3):
                group.create_task(asks())
        assert all(first == second and first % 3 == 0 for first, second in seen)
        assert len({first for first, _ in seen}) > 5
        assert await ask(models) == [60.0, 60.0]
        assert models.versions("pair") == [21]


async def test_requests_that_run_keep_their_values_and_hold_back_no_publication(caplog):
    gate = GATES["published"] = Gate()
    pair = Pair(gate="published")
    async with af.Session(graph=pair.graph) as session, Models() as models:
        await session.run(pair.init)
        publication = await models.publish("pair", session, pair.signatures)
        running = []
        for number in range(4):
            running.append(asyncio.create_task(ask(models)))
            await gate.arrived(number + 1)
            await session.run(pair.step)
            assert await publication.publish() == min(number + 2, 4)
        assert "requests use 4 versions of model 'pair'" in caplog.text
        states = [(each.version, each.state) for each in models.status("pair")]
        assert states == [(4, "available"), (3, "ending"), (2, "ending"), (1, "ending")]
        gate.open()
        assert await asyncio.gather(*running) == [[0.0, 0.0], [1.0, 1.0], [2.0, 2.0], [3.0, 3.0]]
        assert await publication.publish() == 5
        assert await ask(models) == [4.0, 4.0]
    del GATES["published"]


async def test_the_graph_of_the_training_stays_as_it_is_and_may_be_finalized():
    pair = Pair(gate="finalized")
    async with af.Session(graph=pair.graph) as session, Models() as models:
        await session.run(pair.init)
        size = len(pair.graph.get_operations())
        pair.graph.finalize()
        for first in (0, 3):
            gate = GATES["finalized"] = Gate()
            publication = await models.publish("pair", session, pair.signatures)
            slow = asyncio.create_task(ask(models))
            await gate.arrived()
            for _ in range(3):
                await session.run(pair.step)
                await publication.step()
            gate.open()
            assert [await slow, await ask(models)] == [[first, first], [first + 3, first + 3]]
            await models.remove("pair")
        assert len(pair.graph.get_operations()) == size
        states = [each for each in session._engine.state.resources.alive() if isinstance(each, VariableState)]
        assert sorted(each.name for each in states) == ["first", "second"]
    del GATES["finalized"]


async def test_a_model_whose_training_session_was_closed_is_not_ready():
    pair = Pair(gate="closing")
    gate = GATES["closing"] = Gate()
    async with Models() as models:
        async with af.Session(graph=pair.graph) as session:
            await session.run(pair.init)
            batching = af.serving.Batching(max_rows=1)
            publication = await models.publish("pair", session, pair.signatures, batching=batching)
            assert models.ready
            asking = [asyncio.create_task(ask(models)) for _ in range(6)]
            await gate.arrived()
            await turns()
        for error in await asyncio.gather(*asking, return_exceptions=True):  # of those that run, and those that wait
            assert http_error(error)[0] == 503
        del GATES["closing"]
        assert not models.ready
        assert not models.find("pair").ready
        with pytest.raises(errors.UnavailableError, match="the session of signature 'serving_default' was closed"):
            await ask(models)
        with pytest.raises(RuntimeError, match="the session is closed"):
            await publication.publish()
        await models.remove("pair")


async def test_a_queue_is_that_of_the_training():
    with af.Graph().as_default() as graph:
        x = af.placeholder(af.float32, [None], name="x")
        queue = af.FIFOQueue(10, [af.float32], [[]])
        signatures = {"serving_default": Signature({"x": x}, {"y": x + queue.dequeue()})}
        fill = queue.enqueue_many([[1.0, 2.0]])
    async with af.Session(graph=graph) as session, Models() as models:
        await session.run(fill)
        publication = await models.publish("queue", session, signatures)
        for expected in (1.0, 2.0):
            found = await models.find("queue").infer({"x": np.zeros(1, np.float32)})
            assert found["y"].tolist() == [expected]
            await publication.publish()


async def test_values_are_shared_until_the_next_step_and_the_training_gets_the_same_bits():
    pair = Pair(size=1000)
    async with af.Session(graph=pair.graph) as session, Models() as models:
        await session.run(pair.init)
        publication = await models.publish("pair", session, pair.signatures)
        await session.run(pair.step)
        await publication.publish()
        held = {
            each.name: each.present()
            for each in session._engine.state.resources.alive()
            if isinstance(each, VariableState)
        }
        served = next(name for name in held if name.startswith("published/1") and name.endswith("first"))
        assert held["first"] is held[served]
        del held
        for _ in range(3):
            await session.run(pair.step)
        assert await ask(models) == [1.0, 1.0]
        assert np.array_equal(await session.run(pair.first), np.full(1000, 4.0, np.float32))


async def test_a_named_container_is_not_shared_with_what_is_served():
    pair = Pair(container="published-pair")
    try:
        async with af.Session(graph=pair.graph) as session, Models() as models:
            await session.run(pair.init)
            await models.publish("pair", session, pair.signatures)
            await session.run(pair.step)
            assert await ask(models) == [0.0, 0.0]
    finally:
        drop_shared(["published-pair"])


async def test_replicas_get_whole_versions_of_variables_that_are_trained_elsewhere(monkeypatch, caplog):
    pair = Pair(gate="replicas")
    async with cluster({"worker": 2}) as simulated, Models() as models, af.Session(graph=pair.graph) as session:
        targets = [(simulated.target("worker", index), [f"/job:worker/task:{index}"]) for index in range(2)]
        options = {"every": 2, "replicas": [Replica(*target) for target in targets]}
        await session.run(pair.init)
        publication = await models.publish("pair", session, pair.signatures, **options)

        async def train(steps):
            for _ in range(steps):
                await session.run(pair.step)
                await publication.step()

        await train(3)
        assert [await ask(models) for _ in range(2)] == [[2, 2]] * 2
        monkeypatch.setitem(GATES, "replicas", Gate())
        running = asyncio.create_task(ask(models))
        await GATES["replicas"].arrived(1)
        await train(1)
        assert [(each.version, each.state) for each in models.status("pair")] == [(3, "available"), (2, "ending")]
        GATES["replicas"].open()
        assert [await running, await ask(models)] == [[2, 2], [4, 4]]
        await simulated.crash("worker", 0)
        await train(1)
        assert [await ask(models) for _ in range(2)] == [[4, 4]] * 2
        await simulated.start("worker", 0)
        served = models.find("pair")
        while [replica.state for replica in served.replicas] != ["available"] * 2:  # noqa: ASYNC110 - virtual time
            await asyncio.sleep(1)
        assert [await ask(models) for _ in range(2)] == [[4, 4]] * 2
        for index in range(2):
            await simulated.crash("worker", index)
        await train(1)
        assert "keeps its version, since no replica can be reached" in caplog.text
        assert models.versions("pair") == [3]
        with pytest.raises(errors.UnavailableError):
            await models.publish("other", session, pair.signatures, **options)


async def test_what_cannot_be_published_is_refused():
    pair, other = Pair(), Pair()
    async with af.Session(graph=pair.graph) as session, Models() as models:
        with pytest.raises(errors.FailedPreconditionError, match="'first' is not initialized"):
            await models.publish("pair", session, pair.signatures)
        assert models.names() == []
        await session.run(pair.init)
        with pytest.raises(ValueError, match="another graph than that of the session"):
            await models.publish("pair", session, other.signatures)
        for wrong in ({1: pair.signatures["serving_default"]}, {"serving_default": pair.y}):
            with pytest.raises(TypeError, match=r"signatures are af.saved_model.Signature by name"):
                await models.publish("pair", session, wrong)
        for steps in (1.5, "2", None):
            with pytest.raises(TypeError, match="every is a whole number of steps"):
                await models.publish("pair", session, pair.signatures, every=steps)
        assert models.names() == []
        with pytest.raises(ValueError, match="every is 0"):
            await models.publish("pair", session, pair.signatures, every=0)
        publication = await models.publish("pair", session, pair.signatures)
        with pytest.raises(errors.FailedPreconditionError, match="a label cannot keep a version"):
            await models.set_label("pair", "stable", 1)
        await models.refresh()
        await models.remove("pair")
        with pytest.raises(errors.UnavailableError, match="served no longer"):
            await publication.publish()


async def test_steps_that_never_end_leave_the_last_version(caplog):
    gate = Gate()
    pair = Pair()
    with pair.graph.as_default():
        endless = af.group(pair.first.assign(gated(pair.first + 1.0, gate)).op)
    async with af.Session(graph=pair.graph) as session, Models() as models:
        await session.run(pair.init)
        publication = await models.publish("pair", session, pair.signatures)
        running = asyncio.create_task(session.run(endless))
        await gate.arrived()
        assert await publication.publish() == 1
        assert "keeps its version" in caplog.text
        assert await ask(models) == [0.0, 0.0]
        gate.open()
        await running
        assert await publication.publish() == 2


def pair_on_tasks():
    """Two variables on two tasks, a step that changes both, and what serves them."""
    with af.Graph().as_default() as graph:
        x = af.placeholder(af.float32, [None, 1], name="x")
        placed = []
        for job in ("ps", "worker"):
            with af.device(f"/job:{job}"):
                placed.append(af.Variable(af.zeros([1])))
        step = af.group(*[each.assign_add([1.0]).op for each in placed])
        init = af.global_variables_initializer()
        y = af.concat([x + each for each in placed], 1)
    return graph, init, step, {"serving_default": Signature({"x": x}, {"y": y})}


async def test_variables_on_several_tasks_are_served_as_they_were_at_one_moment():
    graph, init, step, signatures = pair_on_tasks()
    async with cluster({"ps": 1, "worker": 1}, latency=0.001) as simulated, Models() as models, Models() as others:
        target = simulated.target("worker", 0)
        async with af.Session(target, graph=graph) as session:
            await session.run(init)
            publication = await models.publish("pair", session, signatures, every=2)
            seen = []

            async def asks():
                while not training.done():
                    seen.append(await ask(models))

            async def trains():
                for _ in range(20):
                    await session.run(step)
                    await publication.step()

            training = asyncio.create_task(trains())
            await asyncio.gather(training, asks(), asks())
            assert all(first == second and first % 2 == 0 for first, second in seen)
            assert len({first for first, _ in seen}) > 3
            assert await ask(models) == [20.0, 20.0]
            await session.run(step)
            graph, _, _, signatures = pair_on_tasks()  # as another process that trains the same variables
            async with af.Session(target, graph=graph) as other:
                await others.publish("pair", other, signatures)
                assert [await ask(others), await ask(models)] == [[21.0, 21.0], [20.0, 20.0]]
                await others.close()
            await models.close()
