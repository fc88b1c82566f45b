"""A client that holds the token, speaks the protocol as it should, and asks for nonsense.

What it asks for is answered, by an error that says what is wrong; its connection stays, the others are served
meanwhile, and when it leaves nothing of it is left.
"""

import asyncio
import contextlib
import re

import msgpack
import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import aioflow as af
from aioflow import errors
from aioflow.kernels.control.control_flow import DEAD
from aioflow.net.peer.handshake import connect
from aioflow.net.wire import schema
from aioflow.net.wire.control_verbs import Failure
from aioflow.net.wire.identity import Identity
from aioflow.net.wire.master_verbs import (
    CloseSession,
    CommitStep,
    CreateSession,
    ExtendSession,
    ListDevices,
    MakeCallable,
    ReleaseCallable,
    RunCallable,
    RunStep,
)
from aioflow.net.wire.schema import ANSWERS
from aioflow.net.wire.worker_verbs import (
    CancelStep,
    CleanupGraph,
    CommitGraph,
    CreateWorkerSession,
    DeleteWorkerSession,
    DeregisterGraph,
    GetStatus,
    RecvTensor,
    RegisterGraph,
    RunGraph,
    Stop,
)
from aioflow.testing import VirtualTimeLoop, no_pending_tasks
from aioflow.testing.simulated_cluster import SimulatedCluster
from tests.support.scale import amount

TASK, OTHER = "/job:worker/replica:0/task:0", "/job:worker/replica:0/task:1"
DEVICE, STRANGE = f"{TASK}/device:CPU:0", "/job:nowhere/replica:0/task:7/device:CPU:0"
NOBODY = "0" * 32
LIMIT = 0.5
OURS = re.compile(r"(Key|Attribute|Assertion|Recursion|StopIteration|Runtime|Unbound\w*|ZeroDivision)Error|NoneType")
"""Classes of Python's that tell of a fault of whoever met them."""
FEED = np.arange(6, dtype=np.float32).reshape(2, 3)


def graph_def():
    """A graph over both tasks, as it is sent: x is fed, y computed, q and d are of a queue."""
    with af.Graph().as_default() as graph:
        x = af.placeholder(af.float32, [None, 3], name="x")
        with af.device("/job:worker/task:1"):
            af.reduce_sum(x * 2.0, name="y")
        queue = af.FIFOQueue(3, af.float32, shapes=[[]], name="q")
        queue.dequeue(name="d")
    return graph.as_graph_def().to_msgpack()


GRAPH = graph_def()


class Hostile:
    """A client of its own making.

    Attributes:
        peer: the task that it asks.
        session: one that it has, of the graph above.
        worker_session: one that it has with the task as a worker.
        incarnation: that of the task's device.
    """

    @classmethod
    async def at(cls, cluster):
        self = cls()
        self.peer = await connect(cluster.network.at("hostile"), "worker0", Identity())
        self.session = (await self.peer.request(CreateSession({}, GRAPH))).session
        self.worker_session = "12" * 16
        await self.peer.request(CreateWorkerSession(self.worker_session))
        (device, _) = (await self.peer.request(ListDevices())).devices
        self.incarnation = device.incarnation
        return self

    async def ask(self, message):
        """What it is answered. Whatever that is, the connection stays."""
        deadline = asyncio.get_running_loop().time() + LIMIT
        try:
            return await self.peer.request(message, deadline=deadline)
        except errors.OpError as error:
            if self.peer.end is not None:
                raise AssertionError(f"{message!r} has cost the connection") from error
            return error


def simulated(program, config=None):
    """What `program(cluster)` comes to in virtual time. Nothing of it is left, on any task."""

    async def run():
        with no_pending_tasks():
            async with SimulatedCluster({"worker": 2}, latency=1e-3, config=config) as cluster:
                await program(cluster)
                await asyncio.sleep(1.0)
                for server in cluster.servers.values():
                    assert await counters(cluster, server) == {"sessions": 0, "meetings": 0, "steps": 0}
                    assert not server._master._sessions

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(run())


async def counters(cluster, server):
    peer = await connect(cluster.network.at("observer"), server.member.address, Identity())
    try:
        return dict((await peer.request(GetStatus())).counters)
    finally:
        await peer.close()


@contextlib.asynccontextmanager
async def served_meanwhile(cluster):
    """A session of another client, whose steps go on all the time."""
    with af.Graph().as_default() as graph:
        x = af.placeholder(af.float32, [])
        with af.device("/job:worker/task:1"):
            y = x + 1.0
        with af.device("/job:worker/task:0"):
            z = y * 2.0
    done = []

    async def steps(session):
        while True:
            assert await session.run(z, {x: float(len(done))}) == 2 * (len(done) + 1)
            done.append(asyncio.get_running_loop().time())
            await asyncio.sleep(0.05)

    async with af.Session(cluster.target("worker", 1), graph=graph) as session, asyncio.TaskGroup() as group:
        running = group.create_task(steps(session))
        await asyncio.sleep(0.1)
        before = len(done)
        yield
        await asyncio.sleep(0.1)
        assert len(done) > before
        running.cancel()


# Whatever a field can hold


def contents(kind, hostile):
    """What a field of that kind can hold, of use and of none."""
    known = {
        "session": [hostile.session, hostile.worker_session, NOBODY],
        "text": [
            *("x:0", "y:0", "q:0", "d:0", "d", "^x", "", "x:99", "é"),
            "a" * 200,
            TASK,
        ],
        "number": [0, 1, 2, 3, 1 << 32, hostile.incarnation, (1 << 63) - 1],
    }
    arrays = [FEED, FEED.astype(np.float64), np.zeros((0, 3), np.float32), np.array([b"s"], object), np.float32(1)]
    values = st.sampled_from([*arrays, None, True, 7, "text", b"bytes", DEAD])
    match kind:
        case schema.Text(most=32, pattern=str()):
            return st.sampled_from(known["session"])
        case schema.Text(most=most, pattern=pattern):
            texts = [text for text in known["text"] if len(text) <= most]
            if pattern is not None:
                texts = [text for text in [*texts, TASK, ""] if re.fullmatch(pattern, text, re.ASCII)]
            return st.sampled_from(texts)
        case schema.Integer(low=low, high=high):
            return st.sampled_from([n for n in (*known["number"], max(low, -(1 << 63)), high) if low <= n <= high])
        case schema.Real(low=low, high=high):
            return st.sampled_from([low, high, 0.5])
        case schema.Choice(options=options):
            return st.sampled_from(options)
        case schema.Flag():
            return st.booleans()
        case schema.Plain():
            return st.sampled_from([None, True, 3, -1, 0.5, float("nan"), "x", [], [1], {}, {"a": [None]}, 1 << 63])
        case schema.EdgeKeys(most=most):
            key = st.sampled_from([(0,), (1,), (1, 0), ((1 << 32) - 1, 3, (1 << 63) - 1)])
            return st.lists(key, max_size=most).map(tuple)
        case schema.Optional(kind=inner):
            return st.none() | contents(inner, hostile)
        case schema.Many(kind=inner):
            return st.lists(contents(inner, hostile), max_size=3).map(tuple)
        case schema.Table(kind=inner, key=key):
            names = st.sampled_from(["0", "1", "x:0", "optimize", "device_filters", "timeout", "trace", "nonsense"])
            return st.dictionaries(names | contents(key, hostile), contents(inner, hostile), max_size=3)
        case schema.Blob():
            return st.sampled_from([b"", b"\xc1", GRAPH, GRAPH[:-1], b"\x91" * 3000, b"\x83" + GRAPH[1:]])
        case schema.Value():
            return values
        case schema.Record(cls=cls):
            return records(cls, hostile)
    raise AssertionError(f"there is no strategy for {kind}")


def records(cls, hostile):
    return st.builds(cls, **{name: contents(field.kind, hostile) for name, field in schema.fields_of(cls).items()})


REQUESTS = [cls for cls in ANSWERS if cls is not Stop]
"""What can be asked for; whoever may ask may ask a task to stop, too."""


@pytest.mark.parametrize("cls", REQUESTS, ids=lambda cls: cls.__name__)
def test_whatever_is_asked_for_is_answered(cls):
    @settings(max_examples=amount(1, 10), phases=[Phase.explicit, Phase.generate])
    @given(st.data())
    def check(data):
        async def program(cluster):
            hostile = await Hostile.at(cluster)
            async with served_meanwhile(cluster):
                messages = [data.draw(records(cls, hostile)) for _ in range(6)]
                answers = await asyncio.gather(*map(hostile.ask, messages))
            for message, answer in zip(messages, answers, strict=True):
                if isinstance(answer, errors.OpError):
                    assert type(answer) not in (errors.UnknownError, errors.InternalError), (message, answer)
                    assert not OURS.search(answer.message), (message, answer)
                else:
                    assert isinstance(answer, ANSWERS[cls])
            await hostile.peer.close()

        simulated(program)

    check()


# What belongs to others, or to nobody


def graph(session, graphs):
    return RegisterGraph(session, 1, graphs)


EMPTY = msgpack.packb({"parts": [], "counted": [], "below": []})
UNKNOWN = {
    "a session": (lambda h: ExtendSession(NOBODY, 0, GRAPH), errors.AbortedError, "does not know the session"),
    "a step of a session": (lambda h: RunStep(NOBODY), errors.AbortedError, "does not know the session"),
    "a call of a session": (lambda h: MakeCallable(NOBODY), errors.AbortedError, "does not know the session"),
    "devices of a session": (lambda h: ListDevices(NOBODY), errors.AbortedError, "does not know the session"),
    "a release in a session": (lambda h: ReleaseCallable(NOBODY, 1), errors.AbortedError, "does not know the session"),
    "a graph of a session": (lambda h: graph(NOBODY, {TASK: b""}), errors.AbortedError, "does not know the session"),
    "a graph for others": (lambda h: graph(h.worker_session, {}), errors.InvalidArgumentError, "is none of the tasks"),
    "a graph for no task": (
        lambda h: graph(h.worker_session, {TASK: EMPTY, "/job:x/replica:0/task:0": EMPTY}),
        errors.NotFoundError,
        "the cluster has no /job:x",
    ),
    "a graph that is passed on": (
        lambda h: graph(h.worker_session, {TASK: EMPTY, OTHER: b"?"}), errors.InvalidArgumentError, "malformed"
    ),
    "a run in a session": (lambda h: RunGraph(NOBODY, 1, 1), errors.AbortedError, "does not know the session"),
    "the end of a graph": (lambda h: DeregisterGraph(NOBODY, 1), errors.AbortedError, "does not know the session"),
    "the commit of a step": (lambda h: CommitStep(h.session, 9), errors.AbortedError, "put its elements back"),
    "the commit of a graph": (lambda h: CommitGraph(9), errors.AbortedError, "step 9 is over"),
    "a call": (lambda h: RunCallable(h.session, 1 << 63, ()), errors.AbortedError, "no callable 9223372036854775808"),
    "a graph": (lambda h: RunGraph(h.worker_session, 99, 1), errors.AbortedError, "does not know graph 99"),
    "more operations": (lambda h: ExtendSession(h.session, 0, GRAPH), errors.AbortedError, "has 6 operations, not 0"),
    "the same ones": (lambda h: ExtendSession(h.session, 6, GRAPH), errors.InvalidArgumentError, "'x' already"),
    "a fetch": (lambda h: RunStep(h.session, {}, ("z:0",)), errors.InvalidArgumentError, "no operation 'z'"),
    "a feed": (lambda h: RunStep(h.session, {"z:0": FEED}), errors.InvalidArgumentError, "no operation 'z'"),
    "a target": (lambda h: RunStep(h.session, {}, (), ("z",)), errors.InvalidArgumentError, "no operation 'z'"),
    "an output": (lambda h: RunStep(h.session, {}, ("y:4",)), errors.InvalidArgumentError, "there is no 'y:4'"),
    "what is not fed": (lambda h: RunStep(h.session, {}, ("y:0",)), errors.InvalidArgumentError, "'x' must be fed"),
    "a handle": (lambda h: RunStep(h.session, {}, ("q:0",)), errors.InvalidArgumentError, "cannot leave its process"),
    "a key of another time": (lambda h: RecvTensor(1, 1, ((1,),)), errors.AbortedError, "has restarted"),
    "no key": (lambda h: RecvTensor(1, h.incarnation, ()), errors.InvalidArgumentError, "values of no keys"),
    "a value that never comes": (
        lambda h: RecvTensor(1, h.incarnation, ((1,),)), errors.DeadlineExceededError, "RecvTensor"),
    "a setting": (lambda h: CreateSession({"file_roots": ["/"]}), errors.InvalidArgumentError, "no setting file_roots"),
    "memory without limit": (
        lambda h: CreateSession({"memory_limit": {}}), errors.InvalidArgumentError, "no setting memory_limit"),
    "filters that are none": (
        lambda h: CreateSession({"device_filters": [1]}), errors.InvalidArgumentError, "are names of tasks"),
    "a setting of another type": (
        lambda h: CreateSession({"optimize": "yes"}), errors.InvalidArgumentError, "True or False, not 'yes'"),
    "a graph that is none": (
        lambda h: CreateSession({}, b"\x91" * 5000), errors.InvalidArgumentError, "these bytes are not a graph"),
}  # fmt: skip


@pytest.mark.parametrize(("message", "error", "text"), UNKNOWN.values(), ids=UNKNOWN)
def test_what_nobody_knows_is_named(message, error, text):
    async def program(cluster):
        hostile = await Hostile.at(cluster)
        answer = await hostile.ask(message(hostile))
        assert type(answer) is error
        assert re.search(text, answer.message)
        await hostile.peer.close()

    simulated(program)


def test_whoever_does_not_know_its_number_cannot_end_what_is_anothers():
    async def program(cluster):
        with af.Graph().as_default() as graph:
            with af.device("/job:worker/task:1"):
                queue = af.FIFOQueue(1, af.float32, shapes=[[]])
            put, taken = queue.enqueue(2.0), queue.dequeue()
            with af.device("/job:worker/task:0"):
                y = taken + 1.0
        async with af.Session(cluster.target("worker", 0, "good"), graph=graph) as session:
            waiting = asyncio.ensure_future(session.run(y))
            await asyncio.sleep(0.1)
            hostile = await Hostile.at(cluster)
            guesses = [
                CloseSession(NOBODY), DeleteWorkerSession(NOBODY),
                *[CancelStep(step, Failure("data_loss", "a cause")) for step in range(200)],
            ]  # fmt: skip
            await asyncio.gather(*map(hostile.ask, guesses))
            hostile.peer.notify(CleanupGraph(tuple(range(200))))
            await hostile.peer.close()
            assert not waiting.done()
            await session.run(put)
            assert await waiting == 3

    simulated(program)


def test_a_step_that_is_run_again_is_refused_as_long_as_it_is_known():
    async def program(cluster):
        hostile = await Hostile.at(cluster)
        await hostile.ask(graph(hostile.worker_session, {TASK: EMPTY}))
        again = [await hostile.ask(RunGraph(hostile.worker_session, 1, 8)) for _ in range(3)]
        assert [isinstance(answer, errors.AbortedError) for answer in again] == [False, True, True]
        assert "step 8 is over" in again[1].message
        await hostile.peer.close()

    simulated(program)


# Graphs of nobody's making


def node(name="n", op="add", **more):
    return {"name": name, "op": op, **more}


def chain(length):
    """Constants and sums, each of the one before."""
    value = {"array": {"dtype": "float32", "shape": [], "data": bytes(4)}}
    first = node("n0", "constant", attr={"value": value})
    return [first, *[node(f"n{i}", "add", input=[f"n{i - 1}", f"n{i - 1}"]) for i in range(1, length)]]


GRAPHS = {
    "an unknown op": ([node(op="launch_missiles")], "'n'.*there is no such op"),
    "an op that is nearly known": ([node(op="matmull")], "did you mean 'matmul'"),
    "an attribute of a later version": (
        [*chain(1), node(op="tanh", input=["n0"], attr={"colour": 1})], "'n'.*no attribute 'colour'"),
    "an attribute of another type": (
        [*chain(1), node(op="reduce_sum", input=["n0"], attr={"keepdims": 7})], "7 cannot be its attribute 'keepdims'"),
    "a cycle": ([node("a", input=["b", "b"]), node("b", input=["a", "a"])], "needs its own result: a <- b <- a"),
    "an input that dangles": ([node(input=["gone", "gone"])], "gone"),
    "a control input that dangles": ([*chain(1), node(op="tanh", input=["n0", "^gone"])], "gone"),
    "a name twice": ([*chain(1), *chain(1)], "the name occurs twice"),
    "a name that is none": ([node("a b")], "'a b' cannot be its name"),
    "a name without end": ([node("a" * 1_000_000, op="no_such_op")], "there is no such op"),
    "an output that is not there": ([*chain(1), node(op="tanh", input=["n0:3"])], "there is no 'n0:3'"),
    "too few inputs": ([*chain(1), node(input=["n0"])], "it takes 2 inputs, and has 1"),
    "a constant that does not fit": (
        [node(op="constant", attr={"value": {"array": {"dtype": "int8", "shape": [9], "data": b""}}})], "has 9 bytes"),
    "a field of a later version": ([node(priority=1)], "it needs a name and an op"),
    "a function by what it would be": ([node(op="py_func", attr={"func": {"tuple": ["os", "system"]}})], "'n'"),
    "nothing but a number": (5, "a list of nodes"),
}  # fmt: skip


def document(nodes, **more):
    return msgpack.packb({"format": "aioflow.graph", "version": 1, "nodes": nodes} | more)


@pytest.mark.parametrize(("nodes", "text"), GRAPHS.values(), ids=GRAPHS)
def test_a_graph_that_cannot_be_is_refused_by_name_and_adds_nothing(nodes, text):
    async def program(cluster):
        hostile = await Hostile.at(cluster)
        for message in (CreateSession({}, document(nodes)), ExtendSession(hostile.session, 6, document(nodes))):
            answer = await hostile.ask(message)
            assert type(answer) is errors.InvalidArgumentError
            assert re.search(text, answer.message)
            assert not OURS.search(answer.message)
        again = await hostile.ask(ExtendSession(hostile.session, 6, document(chain(2))))
        assert again.version == 8
        await hostile.peer.close()

    simulated(program)


@pytest.mark.parametrize(
    ("changed", "text"), [({"version": 2}, "version 2 of the graph format"), ({"format": "x"}, "not a graph")]
)
def test_a_graph_of_a_later_version_is_refused(changed, text):
    async def program(cluster):
        hostile = await Hostile.at(cluster)
        answer = await hostile.ask(CreateSession({}, document([], **changed)))
        assert type(answer) is errors.InvalidArgumentError
        assert text in answer.message
        await hostile.peer.close()

    simulated(program)


# Files, functions, memory


@pytest.mark.parametrize(
    "name",
    ["/etc/passwd", "file:///etc/passwd", "../../../../etc/passwd", "/proc/self/fd/0", "/proc/self/environ", "a\0b",
     "simplecache::file:///etc/passwd", "memory://x", "", "~/.bashrc", "/dev/stdin", "filecache::memory://x"],
)  # fmt: skip
def test_no_op_opens_a_file_of_a_task_that_has_no_roots(name):
    with af.Graph().as_default() as graph, af.device("/job:worker/task:1"):
        queue = af.FIFOQueue(1, af.string, shapes=[[]])
        put = queue.enqueue(name.encode())
        read = [af.read_file(name), af.write_file(name, b"x"), af.matching_files(name)]
        listed = [reader.read(queue)[1] for reader in (af.TextLineReader(), af.WholeFileReader(), af.TFRecordReader())]

    async def program(cluster):
        async with af.Session(cluster.target("worker", 0), graph=graph) as session:
            for each in [*read, *listed]:
                if each in listed:
                    await session.run(put)
                with pytest.raises(errors.OpError, match=r"may not be used|null (byte|character)") as caught:
                    await session.run(each)
                assert type(caught.value) in (errors.PermissionDeniedError, errors.InvalidArgumentError)

    simulated(program)


def test_no_function_is_called_that_a_task_has_not_registered():
    async def program(cluster):
        hostile = await Hostile.at(cluster)
        for name in ("os.system", "eval", "builtins.exec", "__import__", "a" * 1000):
            attr = {"func": name, "Tout": {"tuple": [{"dtype": "float32"}]}}
            made = await hostile.ask(CreateSession({}, document([node("called", "py_func", attr=attr)])))
            answer = await hostile.ask(RunStep(made.session, {}, ("called:0",)))
            assert type(answer) is errors.PermissionDeniedError
            assert "no py_func" in answer.message
        await hostile.peer.close()

    simulated(program)


def test_what_would_not_fit_into_memory_is_refused_and_the_task_goes_on():
    async def program(cluster):
        with af.Graph().as_default() as graph:
            size = af.placeholder(af.int64, [])
            made = [af.zeros([size, 1 << 20]), af.range(size), af.tile([1.0], [size])]
            sums = [af.reduce_sum(each) for each in made]
        async with af.Session(cluster.target("worker", 0), graph=graph) as session:
            for each in sums:
                with pytest.raises(errors.OpError) as caught:
                    await session.run(each, {size: 1 << 55})
                assert type(caught.value) in (errors.ResourceExhaustedError, errors.InvalidArgumentError)
            assert await session.run(sums[1], {size: 4}) == 6

    simulated(program)


def test_a_task_holds_no_more_memory_than_it_may():
    async def program(cluster):
        with af.Graph().as_default() as graph:
            size = af.placeholder(af.int32, [])
            with af.device("/job:worker/task:1"):
                made = af.random_uniform([size])
                state = af.Variable(np.zeros(1, np.float32), validate_shape=False)
                asked = [af.reduce_sum(made), af.assign(state, made * 2.0, validate_shape=False)]
        async with af.Session(cluster.target("worker", 0), graph=graph) as session:
            for each in asked:
                with pytest.raises(errors.ResourceExhaustedError, match="which may hold 4,194,304"):
                    await session.run(each, {size: 1 << 22})
            assert await session.run(asked[0], {size: 1 << 10}) > 0

    simulated(program, af.Config(memory_limit={"CPU:0": 1 << 22}))
