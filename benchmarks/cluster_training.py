"""A step of SGD whose variables are on a parameter server, and the rest on a worker [P16 section 3.3]."""

from collections.abc import AsyncIterator
from typing import Any

from benchmarks import peers
from benchmarks.cluster import MASTER
from benchmarks.cluster_processes import clusters
from benchmarks.cluster_sides import Built, both
from benchmarks.harness import alternate
from benchmarks.mlp import Problem, with_aioflow, with_tensorflow
from benchmarks.report import Claim, Row, timed_row

PROBLEM = Problem((784, 256, 10), 64)
SERVERS, WORKERS = 1, 1
FASTER = 2


async def rows() -> AsyncIterator[Row]:
    """Measure the step."""
    async with clusters({"ps": SERVERS, "worker": WORKERS}) as targets:
        timing = await alternate(both(targets, training), agree=1e-4)
        ratio = timing.ratio(peers.TENSORFLOW, peers.AIOFLOW)
        claim = Claim("TensorFlow / aioflow", ratio, FASTER, at_least=True)
        yield timed_row(f"{PROBLEM}, SGD step with {SERVERS} ps and {WORKERS} worker", timing, [claim])


def training(m: Any) -> Built:
    """Return the loss of a training step."""
    model = with_aioflow.model if m is peers.aioflow() else with_tensorflow.model
    with m.device(m.train.replica_device_setter(ps_tasks=SERVERS, worker_device=MASTER)):
        images, logits = model(PROBLEM)
        labels = m.placeholder(m.int32, [None])
        loss = m.reduce_mean(m.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
        train = m.train.GradientDescentOptimizer(PROBLEM.rate).minimize(loss)
        with m.control_dependencies([train]):
            trained = m.identity(loss)
        return Built(trained, [images, labels], [PROBLEM.images, PROBLEM.labels], m.global_variables_initializer())
