"""Whatever is read from a peer, a file or the environment is understood, or refused by the error that is documented."""

import asyncio
import contextlib
import json
import logging
import random

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import aioflow as af
from aioflow import errors
from aioflow.graph.graphdef import GraphDef
from aioflow.launch.resolvers import RESOLVERS, resolve
from aioflow.net.cluster import ClusterSpec, filtered
from aioflow.net.transport.credentials import Token, load_token
from aioflow.net.transport.websocket_server import HEADER, PATH, WebSocketNetwork
from tests.support.net_peers import PS, WORKER, Service, meeting, tensor
from tests.support.scale import some

SECRET = "correct-horse-battery"
DEVICE = f"{PS}/device:CPU:0"
TEXTS = st.text(st.characters(exclude_categories=()), max_size=40)
NAMES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters=";"), min_size=1, max_size=30)

# Clusters

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS | st.sampled_from(["a:1", "b:2", "0", "00", "1"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["ps", "worker", "0", "00", "\N{ARABIC-INDIC DIGIT THREE}"]), inner)
    ),
    max_leaves=8,
)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("clusters") / "cluster.json"


@given(PLAIN.map(json.dumps).map(str.encode) | st.binary(max_size=60))
@example(b"[" * 100_000)
@example(b'{"worker": {"99999999999999999999": "a:1"}}')
@example(b'{"worker": {"' + b"9" * 5000 + b'": "a:1"}}')
@example(b"\xff\xfe{}")
def test_a_file_describes_a_cluster_or_is_refused_by_its_name(path, data):
    path.write_bytes(data)
    try:
        spec = ClusterSpec.from_json(path)
    except ValueError as error:
        assert str(path) in str(error)  # noqa: PT017 - it may well be a cluster
    else:
        assert ClusterSpec(spec.as_dict()) == spec
        assert all(len(spec.job_tasks(job)) >= spec.num_tasks(job) for job in spec.jobs)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"worker": ["a:1"], "worker": ["b:1"]}', "'worker' occurs twice"),
        ('{"worker": {"1": "a:1", "1": "b:1"}}', "'1' occurs twice"),
        ('{"worker": {"1": "a:1", "01": "b:1"}}', "1 occurs twice"),
        ('{"worker": {"0": "a:1", "x": "b:1"}}', "'x' is not the number of a task"),
        ('{"worker": ["a:1"], "ps": ["a:1"]}', "have one address, a:1"),
        ('["a:1"]', "a cluster is an object of jobs"),
        ("{", "is not JSON: Expecting"),
    ],
)
def test_a_file_that_says_something_twice_or_nothing_is_refused(path, text, says):
    path.write_text(text)
    with pytest.raises(ValueError, match=says):
        ClusterSpec.from_json(path)


@given(st.lists(TEXTS | st.sampled_from(["/job:ps", "/job:worker/task:1", "/task:99", "CPU:0", "/job:*"]), max_size=3))
def test_filters_name_tasks_or_are_refused(filters):
    tasks = [PS, WORKER]
    with contextlib.suppress(errors.InvalidArgumentError):
        assert set(filtered(tasks, filters)) <= set(tasks)


VARIABLES = sorted(
    {*RESOLVERS, "AIOFLOW_JOB", "AIOFLOW_TASK", "AIOFLOW_HOSTS", "AIOFLOW_PORT", "AIOFLOW_PS", "AIOFLOW_TASKS",
     "AIOFLOW_ROLES", "WORLD_SIZE", "RANK", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_RANK",
     "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE", "HOSTNAME", "JOBSET_NAME", "REPLICATED_JOB_NAME",
     "SLURM_STEP_ID", "SLURM_PROCID", "SLURM_STEP_NODELIST", "SLURM_STEP_TASKS_PER_NODE", "SLURM_NTASKS"}
)  # fmt: skip
SETTINGS = st.sampled_from(
    ["0", "1", "2", "-1", "\N{ARABIC-INDIC DIGIT THREE}", "9" * 30, "a,b", "n[1-2]", "n[1-", "2(x2)",
     "2(x999999999999)", "ps=1,worker=2",
     '{"worker": ["a:1"]}', '{"worker": {"5": "a:1"}}', '{"cluster": {"worker": ["a:1"]}, "task": {"type": "worker"}}',
     '{"cluster": {}, "task": []}', "[]", "x-1", "65535"]
)  # fmt: skip


@given(st.dictionaries(st.sampled_from(VARIABLES), SETTINGS | TEXTS, max_size=12))
def test_an_environment_describes_a_task_or_is_refused(variables):
    with contextlib.suppress(errors.InvalidArgumentError):
        member = resolve(variables)
        assert member.address == member.cluster.task_address(member.job, member.index)


# Tokens


@given(st.binary(max_size=5000))
@example(b"\xff" * 40)
@example(b"x" * 5000)
def test_a_file_holds_a_token_or_is_refused_without_showing_it(path, data):
    path.touch()
    path.chmod(0o600)
    path.write_bytes(data)
    try:
        token = load_token(path)
    except errors.InvalidArgumentError as error:
        text = data.decode("ascii", "replace").strip()
        assert len(text) < 5 or text not in str(error)  # noqa: PT017 - it may well be a token
    else:
        assert token.matches(token.header())


@given(TEXTS.filter(lambda text: not any("\ud800" <= letter < "\udc80" for letter in text)))
def test_no_header_shows_the_token_but_that_which_does(text):
    with contextlib.suppress(UnicodeEncodeError):
        assert not Token(SECRET).matches(text)
        assert not Token(SECRET).matches(f"Bearer {SECRET}{text or ' '}")


# Graphs


@pytest.mark.parametrize(
    "data",
    [b"\x91" * 5000, b"\x81\xa1a" * 5000, b"\xdd\xff\xff\xff\xff", b"\xdf\x7f\xff\xff\xff", b"\xc6\xff\xff\xff\xff"],
)
def test_a_graph_nested_without_end_or_announced_and_not_there_takes_no_memory(data):
    with pytest.raises(ValueError, match="these bytes are not a graph"):
        GraphDef.from_msgpack(data)


def test_the_end_of_a_loop_that_has_no_such_output_is_named():
    with af.Graph().as_default() as graph:
        first = af.enter(af.constant(np.float32(0)), "loop")
        merged, _ = af.merge([first, first])
        _, going = af.switch(merged, af.loop_cond(merged < 3.0))
        merged.op.update_input(1, af.next_iteration(going + 1.0, name="next"))
    plain = graph.as_graph_def().to_plain()
    for node in plain["nodes"]:
        node["input"] = ["next:7" if text == "next" else text for text in node.get("input", [])]
    with (
        af.Graph().as_default() as other,
        pytest.raises(ValueError, match="'next' has 1 outputs; there is no 'next:7'"),
    ):
        af.import_graph_def(GraphDef.from_plain(plain), name="")
    assert other.version == 0


# Upgrade requests


def request(chance):
    """An upgrade request that is whole, or of which some bytes are others."""
    lines = [
        f"GET {PATH} HTTP/1.1", "Host: x", "Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", f"{HEADER}: 1", f"Authorization: Bearer {SECRET}",
    ]  # fmt: skip
    for _ in range(chance.randrange(4)):
        junk = "".join(chr(chance.randrange(256)) for _ in range(chance.choice([0, 3, 40, 9000])))
        lines[chance.randrange(len(lines))] = chance.choice([junk, f"X: {junk}", f"Authorization: Bearer {junk}", ""])
    data = bytearray("\r\n".join([*lines, "", ""]).encode("latin-1"))
    for _ in range(chance.choice([0, 0, 1, 5])):
        data[chance.randrange(len(data))] = chance.randrange(256)
    return bytes(data[: chance.choice([len(data), chance.randrange(len(data) + 1)])])


@pytest.mark.sockets
@pytest.mark.parametrize("seed", some(range(4), 2))
async def test_requests_of_any_bytes_do_no_harm(seed, caplog):
    chance, network = random.Random(seed), WebSocketNetwork(Token(SECRET))
    async with meeting(network, network, "127.0.0.1:0", Service()) as (peer, _):
        acceptor_address = peer._links[0]._channel._transport.get_extra_info("peername")
        for _ in range(50):
            reader, writer = await asyncio.open_connection(*acceptor_address[:2])
            writer.write(request(chance))
            writer.write_eof()
            with contextlib.suppress(ConnectionError):
                answer = await reader.read(1 << 16)
                assert SECRET.encode() not in answer
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()
        assert (await peer.request(tensor(64))).values[0].nbytes == 64
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []
    assert SECRET not in caplog.text
