"""Models on several tasks of a cluster: which replica a request gets, and what the loss of a task does to requests."""

import asyncio
import contextlib
import json
import os
import signal

import pytest

import aioflow as af
from aioflow import errors
from aioflow.saved_model import Signature
from aioflow.serving import Batching, Models, Replica
from aioflow.serving.replica_keeper import ReplicaKeeper
from aioflow.serving.service import Service
from aioflow.testing import Gate, cluster
from tests.serving.doubles import answer
from tests.support.saved_models import GATES, Line, gate_by_name, rows


@pytest.fixture
def gate():
    GATES["held"] = Gate()
    yield GATES["held"]
    del GATES["held"]


def on_tasks(simulated, count=2):
    return [Replica(simulated.target("worker", index), [f"/job:worker/task:{index}"]) for index in range(count)]


@contextlib.asynccontextmanager
async def serving(directory, count=2, **options):
    """A simulated cluster, and a model on `count` of its tasks."""
    async with cluster({"worker": count}) as simulated:
        async with Models() as models:
            version = await models.add("line", directory, replicas=on_tasks(simulated, count), **options)
            yield simulated, models, version
        await asyncio.sleep(10)
        assert simulated.held() == []
        assert [resources.alive() for resources in resources_of(simulated)] == [[]] * len(simulated.servers)


def resources_of(simulated):
    return [server._worker._state.resources for server in simulated.servers.values()]


async def ask(version, *values, signature="serving_default"):
    return (await version.infer({"x": rows(*values)}, signature))["y"].ravel().tolist()


def states(version):
    return [replica.state for replica in version.replicas]


async def until(check):
    for _ in range(1000):
        if check():
            return
        await asyncio.sleep(0.05)
    raise AssertionError("it does not become true")


async def test_requests_are_divided_among_the_replicas_by_their_rows(tmp_path, gate):
    await Line(2.0, gate="held").save(tmp_path, 1)
    async with serving(tmp_path, 3, batching=None) as (_, models, version):
        assert [replica.name for replica in version.replicas] == [f"/job:worker/task:{index}" for index in range(3)]
        assert states(version) == ["available"] * 3
        large = asyncio.create_task(ask(version, *range(10)))
        small = [asyncio.create_task(ask(version, value)) for value in range(6)]
        await gate.arrived(7)
        assert sorted(replica.rows for replica in version.replicas) == [3, 3, 10]
        gate.open()
        assert await large == [2.0 * value for value in range(10)]
        assert await asyncio.gather(*small) == [[2.0 * value] for value in range(6)]
        assert [replica.rows for replica in version.replicas] == [0, 0, 0]
        assert models.ready


async def test_a_lost_task_loses_no_request_that_changes_nothing_and_serves_again_with_its_weights(tmp_path, gate):
    await Line(3.0, gate="held").save(tmp_path, 1, warmup=[])
    async with serving(tmp_path, batching=None) as (simulated, models, version):
        asking = [asyncio.create_task(ask(version, value)) for value in range(4)]
        await gate.arrived(4)
        await simulated.crash("worker", 1)
        await gate.arrived(6)  # those of the lost task run on the other one
        gate.open()
        assert await asyncio.gather(*asking) == [[3.0 * value] for value in range(4)]
        assert version._replicas.retries == 2
        assert states(version) == ["available", "lost"]
        assert models.ready
        assert await ask(version, 1) == [3.0]
        await simulated.start("worker", 1)
        await until(lambda: states(version) == ["available", "available"])
        assert await asyncio.gather(*[ask(version, value) for value in range(4)]) == [[3.0 * v] for v in range(4)]
        assert [replica.losses for replica in version.replicas] == [0, 1]


async def test_two_versions_on_one_task_have_variables_of_their_own(tmp_path):
    for number in (1, 2):
        await Line(float(number)).save(tmp_path, number)
    async with serving(tmp_path, labels={"old": 1}) as (simulated, models, version):
        old = models.find("line", label="old")
        assert [await ask(version, 1), await ask(old, 1)] == [[2.0], [1.0]]
        await Line(3.0).save(tmp_path, 3)
        await models.refresh()
        assert await ask(models.find("line"), 1) == [3.0]
        await until(lambda: [len(resources.alive()) for resources in resources_of(simulated)] == [4, 4])
        await models.set_label("line", "old", None)
        await until(lambda: [len(resources.alive()) for resources in resources_of(simulated)] == [2, 2])


# A task is killed at each moment of a request


async def save_counting(directory):
    """A model with a signature that changes nothing, and one that counts; each run passes the gate."""
    with af.Graph().as_default() as graph:
        x = af.placeholder(af.float32, [None, 1], name="x")
        factor, count = af.Variable([2.0]), af.Variable([0.0])
        y = gate_by_name(x * factor, "held")
        with graph.control_dependencies([y]):
            counted = y + 0.0 * count.assign_add([1.0])
        init = af.global_variables_initializer()
    signatures = {"look": Signature({"x": x}, {"y": y}), "count": Signature({"x": x}, {"y": counted})}
    async with af.Session(graph=graph) as session:
        await session.run(init)
        await af.saved_model.save(session, directory, signatures, version=1)


async def crash_after(seconds, directory, signature, gate, batching):
    """Kill the task of a request that long after its begin. Returns the answer, or the error."""
    async with cluster({"worker": 2}, latency=0.01) as simulated, Models() as models:
        version = await models.add("line", directory, replicas=on_tasks(simulated), batching=batching)
        await ask(version, 1, signature=signature)
        gate.entered = 0
        asking = asyncio.create_task(ask(version, 4, signature=signature))
        await asyncio.sleep(seconds)
        await simulated.crash("worker", 1)
        (outcome,) = await asyncio.gather(asking, return_exceptions=True)
        await simulated.start("worker", 1)
        await until(lambda: states(version) == ["available", "available"])
        return outcome


@pytest.mark.parametrize("batching", [None, Batching()])
async def test_whenever_a_task_is_killed_a_request_is_done_once_unless_it_changes_nothing(tmp_path, gate, batching):
    gate.open()
    await save_counting(tmp_path)
    runs, failed = set(), 0
    for step in range(12):
        moment = step * 0.005
        assert await crash_after(moment, tmp_path, "look", gate, batching) == [8.0]
        runs.add(gate.entered)
        outcome = await crash_after(moment, tmp_path, "count", gate, batching)
        assert gate.entered <= 1
        if isinstance(outcome, errors.OpError):
            assert type(outcome) in (errors.UnavailableError, errors.AbortedError)
            failed += 1
        else:
            assert outcome == [8.0]
            assert gate.entered == 1
    assert runs == {1, 2}
    assert 0 < failed < 12


async def test_a_request_that_changes_something_is_given_to_another_replica_if_its_run_has_not_begun(tmp_path, gate):
    await save_counting(tmp_path)
    async with serving(tmp_path, batching=Batching(max_rows=1)) as (simulated, _, version):
        asking = [asyncio.create_task(ask(version, value, signature="count")) for value in range(10)]
        await gate.arrived(4)  # of each replica's five requests two run
        await simulated.crash("worker", 1)
        await until(lambda: states(version)[1] == "lost")
        gate.open()
        outcomes = await asyncio.gather(*asking, return_exceptions=True)
        failed = [outcome for outcome in outcomes if isinstance(outcome, errors.UnavailableError)]
        assert (len(failed), gate.entered) == (2, 10)
        assert sorted(outcome for outcome in outcomes if outcome not in failed)[0][0] % 2 == 0
        await simulated.start("worker", 1)
        await until(lambda: states(version)[1] == "available")
        await simulated.crash("worker", 0)
        found = [await ask(version, value, signature="count") for value in range(4)]  # not one was sent to that task
        assert found == [[2.0 * value] for value in range(4)]


# Tasks that are slow, cut off, or not there


async def test_a_blocked_task_holds_up_no_other_request_and_a_cut_off_one_is_lost_until_it_can_be_reached(tmp_path):
    await Line(2.0).save(tmp_path, 1)
    loop = asyncio.get_running_loop()
    async with serving(tmp_path, batching=None) as (simulated, _, version):
        simulated.block("worker0")
        held = asyncio.create_task(ask(version, *range(8)))
        await asyncio.sleep(20)  # many looks: a blocked task is not lost
        began = loop.time()
        assert [await ask(version, value) for value in range(20)] == [[2.0 * value] for value in range(20)]
        assert loop.time() - began < 0.1
        assert states(version) == ["available", "available"]
        assert not held.done()
        simulated.resume("worker0")
        assert await held == [2.0 * value for value in range(8)]
        cut(simulated, True)
        asking = [asyncio.create_task(ask(version, value)) for value in range(4)]
        assert await asyncio.gather(*asking) == [[2.0 * value] for value in range(4)]
        assert 1 < loop.time() - began < 20
        await until(lambda: states(version) == ["lost", "available"])
        cut(simulated, False)
        await until(lambda: states(version) == ["available", "available"])
        assert await asyncio.gather(*[ask(version, value) for value in range(4)]) == [[2.0 * v] for v in range(4)]


def cut(simulated, parted):
    for ends in (("client", "worker0"), ("worker0", "client")):
        simulated.network.path(*ends).parted = parted
    simulated.network.wake()


async def test_a_replica_that_is_not_there_is_loaded_later_and_without_any_there_is_no_model(tmp_path):
    await Line(2.0).save(tmp_path, 1)
    async with cluster({"worker": 2}) as simulated, Models() as models:
        places = on_tasks(simulated)
        for index in range(2):
            await simulated.crash("worker", index)
        with pytest.raises(errors.UnavailableError, match=r"[Cc]annot connect|cannot be reached"):
            await models.add("line", tmp_path, replicas=places)
        assert models.names() == []
        await simulated.start("worker", 1)
        version = await models.add("line", tmp_path, replicas=places)
        assert states(version) == ["lost", "available"]
        assert await ask(version, 1) == [2.0]
        await simulated.crash("worker", 1)
        with pytest.raises(errors.UnavailableError):
            await ask(version, 1)
        await until(lambda: states(version) == ["lost", "lost"])
        with pytest.raises(
            errors.UnavailableError, match="no replica of version 1 of model 'line' can be reached: /job:w"
        ):
            await ask(version, 1)
        assert (models.ready, version.ready, version.state) == (False, False, "available")
        await simulated.start("worker", 0)
        await until(lambda: models.ready)
        assert await ask(version, 1) == [2.0]
        for wrong, error, text in [
            ([Replica(simulated.target("worker", 0), ["/job:ps"])], errors.InvalidArgumentError, "match no task"),
            ([], ValueError, "at least one, each in a place of its own, not none"),
            ([places[0], places[0]], ValueError, "not /job:worker/task:0, /job:worker/task:0"),
            (["ws://a:1"], TypeError, r"a list of af.serving.Replica, not \['ws://a:1'\]"),
        ]:
            with pytest.raises(error, match=text):
                await models.add("other", tmp_path, replicas=wrong)


async def test_a_model_is_spread_over_tasks_as_it_was_saved(tmp_path):
    with af.Graph().as_default() as graph:
        x = af.placeholder(af.float32, [None, 1], name="x")
        parts = []
        for index in range(2):
            with af.device(f"/job:worker/task:{index}"):
                parts.append(x * af.Variable([float(index + 1)]))
        signatures = {"serving_default": Signature({"x": x}, {"y": parts[0] + parts[1]})}
        init = af.global_variables_initializer()
    async with cluster({"worker": 2}) as simulated, Models() as models:
        async with af.Session(simulated.target("worker", 0), graph=graph) as session:
            await session.run(init)
            await af.saved_model.save(session, tmp_path, signatures, version=1)
        place = Replica(simulated.target("worker", 0), ["/job:worker"], keep_devices=True)
        version = await models.add("line", tmp_path, replicas=[place])
        assert await ask(version, 1, 2) == [3.0, 6.0]
        assert [own_values(resources) for resources in resources_of(simulated)] == [[[1.0]], [[2.0]]]
        await simulated.crash("worker", 1)
        with pytest.raises(errors.UnavailableError):
            await ask(version, 1)
        await simulated.start("worker", 1)
        await until(lambda: version.ready and version.replicas[0].losses)
        assert await ask(version, 1, 2) == [3.0, 6.0]


async def test_a_task_that_restarts_gets_the_tables_of_a_model_without_variables_again(tmp_path):
    with af.Graph().as_default() as graph:
        keys = af.placeholder(af.int64, [None], name="keys")
        changing = af.lookup.experimental.MutableHashTable(af.int64, af.int64, -1, name="changing")
        static = af.lookup.StaticHashTable(af.lookup.KeyValueTensorInitializer([1], [5]), -1)
        tables = {"changing": changing.lookup(keys), "static": static.lookup(af.cast(keys, af.int32))}
        signatures = {name: Signature({"keys": keys}, {"y": found}) for name, found in tables.items()}
        fill = [changing.insert(af.constant([1], af.int64), af.constant([7], af.int64)), af.tables_initializer()]
    async with af.Session(graph=graph) as session:
        await session.run(fill)
        await af.saved_model.save(session, tmp_path, signatures, version=1)
    async with cluster({"worker": 2}) as simulated, Models() as models:
        place = Replica(simulated.target("worker", 1), ["/job:worker/task:0"])  # its master does not restart
        version = await models.add("tables", tmp_path, replicas=[place])
        for losses in range(2):
            assert version.replicas[0].losses == losses
            for name, value in (("changing", 7), ("static", 5)):
                assert (await version.infer({"keys": [1, 2]}, name))["y"].tolist() == [value, -1]
            await simulated.crash("worker", 0)
            await simulated.start("worker", 0)
            name = [*tables][losses]
            with pytest.raises(errors.AbortedError, match="task:0 has restarted"):
                await version.infer({"keys": [1, 2]}, name)
            with pytest.raises(errors.UnavailableError, match=r"task:0 of .* loads the model again"):
                await version.infer({"keys": [1, 2]}, name)  # before a look has seen that its table is empty
            await until(lambda losses=losses: version.ready and version.replicas[0].losses > losses)


async def test_replicas_need_no_vocabulary_file_of_their_own(tmp_path):
    words, file = af.Graph(), tmp_path / "words.txt"
    file.write_text("u\nv\n")
    with words.as_default():
        asked = af.placeholder(af.string, [None], name="asked")
        number = af.lookup.index_table_from_file(str(file), num_oov_buckets=1).lookup(asked)
        signatures, init = {"serving_default": Signature({"asked": asked}, {"y": number})}, af.tables_initializer()
    async with af.Session(graph=words) as session, cluster({"worker": 2}) as simulated, Models() as models:
        await session.run(init)
        await af.saved_model.save(session, tmp_path / "model", signatures, version=1)
        await models.add("saved", tmp_path / "model", replicas=on_tasks(simulated))
        await models.publish("published", session, signatures, replicas=on_tasks(simulated))
        for name in ("saved", "published"):
            found = await models.find(name).infer({"asked": ["v", "u", "w"]})
            assert found["y"].tolist() == [1, 0, 2]


def own_values(resources):
    """The values of variables in containers of sessions: those of the training are in the default one."""
    return [each.read().tolist() for container in resources._used.values() for each in container.objects().values()]


async def test_the_health_of_replicas_is_in_metadata_and_metrics(tmp_path):
    await Line(2.0).save(tmp_path, 1)
    metrics = af.serving.Metrics()
    async with cluster({"worker": 2}) as simulated, Models(metrics=metrics) as models:
        version = await models.add("line", tmp_path, replicas=on_tasks(simulated))
        await simulated.crash("worker", 1)
        assert [await ask(version, 1) for _ in range(2)] == [[2.0]] * 2
        await until(lambda: states(version)[1] == "lost")
        service = Service(models)
        status, _, body = await answer(service, "GET", "/v2/models/line")
        first, second = ({"name": f"/job:worker/task:{index}", "rows": 0} for index in range(2))
        assert (status, json.loads(body)["replicas"]) == (
            200, [{**first, "state": "available", "losses": 0}, {**second, "state": "lost", "losses": 1}],
        )  # fmt: skip
        _, _, body = await answer(service, "GET", "/metrics")
        labels = 'model="line",replica="/job:worker/task:1",version="1"'
        for line in (
            f"aioflow_replica_up{{{labels}}} 0.0", f"aioflow_replica_losses_total{{{labels}}} 1.0",
            f"aioflow_replica_rows{{{labels}}} 0.0", 'aioflow_retries_total{model="line",version="1"} 1.0',
        ):  # fmt: skip
            assert line in body.decode().splitlines()
        await models.remove("line")
        _, _, body = await answer(service, "GET", "/metrics")
        assert "/job:worker" not in body.decode()


@pytest.mark.real
@pytest.mark.slow
@pytest.mark.long
async def test_processes_serve_a_model_while_one_of_them_is_killed_and_comes_back(tmp_path):
    await Line(2.0).save(tmp_path, 1)
    launch = af.launch.local(workers=2)
    async with launch as launched, Models() as models:
        places = [Replica(launched.target_of("worker", index), [f"/job:worker/task:{index}"]) for index in range(2)]
        version = await models.add("line", tmp_path, replicas=places)
        stopped, answered = asyncio.Event(), []

        async def client(value):
            while not stopped.is_set():
                answered.append(await ask(version, value) == [2.0 * value])

        clients = [asyncio.create_task(client(value)) for value in range(8)]
        await until(lambda: len(answered) > 100)
        os.kill(launch._places[1]._agent._process.pid, signal.SIGKILL)
        async with asyncio.timeout(120):
            await launched.restarted("/job:worker/replica:0/task:1")
            await until(lambda: version.replicas[1].losses and states(version) == ["available", "available"])
        stopped.set()
        await asyncio.gather(*clients)
        assert all(answered)


async def test_a_replica_whose_look_fails_by_any_error_is_loaded_again():
    class Loaded:
        broken = False

        async def look(self):
            if self.broken:
                raise ValueError("not an error of an operation")

        async def abort(self, error):
            ends.append(error.message)

    made, ends = [], []

    async def load():
        made.append(Loaded())
        return made[-1]

    keeper = ReplicaKeeper("replica", load)
    await keeper.open()
    keeper.keep()
    made[0].broken = True
    await asyncio.sleep(3)
    assert (len(made), keeper.status.state, keeper.status.losses) == (2, "available", 1)
    await keeper.close()
    assert ends == ["not an error of an operation", "replica replica is closed"]
