"""Variables on parameter servers: which of them, and what stays on workers."""

import numpy as np
import pytest

import aioflow as af
from aioflow.testing.simulated_cluster import SimulatedCluster
from aioflow.train import GreedyLoadBalancingStrategy, byte_size_load_fn, replica_device_setter

CLUSTER = {"ps": ["a:1", "b:1"], "worker": ["c:1", "d:1"]}


@pytest.fixture(autouse=True)
def graph():
    with af.Graph().as_default() as graph:
        yield graph


def variables(*sizes):
    return [af.Variable(np.zeros(size, np.float32), name=f"v{size}") for size in sizes]


def devices(*made):
    return [each.device for each in made]


def test_variables_go_to_the_parameter_servers_in_turn_and_all_else_to_the_worker():
    with af.device(replica_device_setter(3, worker_device="/job:worker/task:1")):
        made = variables(1, 2, 3, 4)
        product = made[0] * 2.0
    assert devices(*made) == [f"/job:ps/task:{task}" for task in (0, 1, 2, 0)]
    assert product.device == "/job:worker/task:1"


@pytest.mark.parametrize(
    ("cluster", "tasks"),
    [
        (CLUSTER, (0, 1, 0)),
        (af.train.ClusterSpec(CLUSTER), (0, 1, 0)),
        ({"ps": {2: "a:1", 5: "b:1"}, "worker": ["c:1"]}, (2, 5, 2)),
    ],
)
def test_a_cluster_tells_which_parameter_servers_there_are(cluster, tasks):
    with af.device(replica_device_setter(cluster=cluster)):
        assert devices(*variables(1, 2, 3)) == [f"/job:ps/task:{task}" for task in tasks]


@pytest.mark.parametrize("told", [{}, {"ps_tasks": 0}, {"cluster": {"worker": ["c:1"]}}, {"cluster": {"ps": []}}])
def test_without_parameter_servers_all_stays_where_it_is(told):
    assert replica_device_setter(**told) is None
    with af.device(replica_device_setter(**told)):
        assert devices(*variables(1)) == [""]


def test_what_the_program_says_of_devices_inside_refines_it():
    with af.device(replica_device_setter(2, worker_device="/job:worker")):
        with af.device("/gpu:1"):
            (variable,) = variables(1)
            product = af.constant(1.0)
        with af.device("/job:ps/task:1"):
            pinned = variables(2)
    assert devices(variable, product) == ["/job:ps/task:0/device:GPU:1", "/job:worker/device:GPU:1"]
    assert devices(*pinned) == ["/job:ps/task:1"]


def test_variables_of_another_job_get_no_number_from_it():
    with af.device("/job:chief"), af.device(replica_device_setter(2)):
        assert devices(*variables(1)) == ["/job:chief"]


def test_large_variables_are_spread_by_their_bytes():
    strategy = GreedyLoadBalancingStrategy(2, byte_size_load_fn)
    with af.device(replica_device_setter(2, ps_strategy=strategy)):
        made = variables(100, 10, 20, 60, 30)
    assert [int(device[-1]) for device in devices(*made)] == [0, 1, 1, 1, 1]
    assert [byte_size_load_fn(variable.op) for variable in made] == [400, 40, 80, 240, 120]


def test_bytes_that_are_not_known_are_not_guessed():
    variable = af.Variable(af.placeholder(af.float32), validate_shape=False)
    with pytest.raises(ValueError, match="'Variable' is not known"):
        byte_size_load_fn(variable.op)


def test_other_ops_may_be_served():
    with af.device(replica_device_setter(1, ps_ops=["constant"])):
        assert devices(*variables(1), af.constant(1)) == ["/job:worker", "/job:ps/task:0"]


@pytest.mark.parametrize(
    ("told", "error", "text"),
    [
        ({"ps_tasks": 1, "ps_strategy": 3}, TypeError, "ps_strategy must be a function of an operation, not 3"),
        ({"ps_tasks": 1, "merge_devices": False}, ValueError, "devices are always merged"),
        ({"ps_tasks": 1, "ps_device": "/jub:ps"}, ValueError, "malformed device name"),
        ({"cluster": 3}, TypeError, "a cluster is a dict of jobs"),
    ],
)
def test_what_cannot_be_is_refused(told, error, text):
    with pytest.raises(error, match=text):
        replica_device_setter(**told)


@pytest.mark.parametrize("make", [af.train.AdamOptimizer, af.train.GradientDescentOptimizer])
async def test_a_net_between_parameter_servers_and_a_worker_learns_what_it_learns_in_one_process(make):
    def build(setter):
        with af.Graph().as_default() as graph, af.device(setter):
            x = af.placeholder(af.float32, [None, 3])
            w = af.Variable(np.ones((3, 2), np.float32))
            b = af.Variable(np.ones(2, np.float32))
            loss = af.reduce_mean(af.square(af.matmul(x, w) + b))
            train = make(0.1).minimize(loss, global_step=af.train.get_or_create_global_step())
            return graph, [loss, train, af.train.get_global_step()], x, af.global_variables_initializer()

    async def losses(target, setter):
        graph, fetches, x, init = build(setter)
        async with af.Session(target, graph=graph) as session:
            await session.run(init)
            return [await session.run(fetches[:2], {x: np.ones((2, 3))}) for _ in range(4)]

    setter = replica_device_setter(2, worker_device="/job:worker/task:1")
    async with SimulatedCluster({"ps": 2, "worker": 2}) as cluster:
        apart = await losses(cluster.target("worker", 1), setter)
    together = await losses("", None)
    np.testing.assert_allclose([loss for loss, _ in apart], [loss for loss, _ in together], rtol=1e-6)
