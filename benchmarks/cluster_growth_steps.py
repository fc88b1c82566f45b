"""Steps over many workers, in TensorFlow's names or ours: null training steps and all-reduces."""

from typing import Any

from benchmarks.cluster_sides import Built

SERVERS = 4
ROWS, WIDTH, PICKED, MIB = 16_384, 256, 32, 1 << 18
"""Of a server's sparse parameter: rows, row length, and rows that a worker fetches. Floats of a MiB."""
HOST = 8
"""Workers of a host, in an all-reduce that reduces inside each host first."""


def no_ops(m: Any, workers: int, servers: int) -> Built:
    """Each worker does nothing."""
    operations = []
    for worker in range(workers):
        with m.device(f"/job:worker/task:{worker}"):
            operations.append(m.no_op())
    return Built(operations)


def scalar(m: Any, workers: int, servers: int) -> Built:
    """A parameter is one number."""
    return dense(m, workers, servers, 1, "scalar")


def large(m: Any, workers: int, servers: int) -> Built:
    """A parameter has one MiB."""
    return dense(m, workers, servers, MIB, "large")


def dense(m: Any, workers: int, servers: int, size: int, name: str) -> Built:
    """Each worker fetches all parameters whole."""
    values = [parameter(m, server, [size], f"{name}_{server}") for server in range(servers)]
    updates: list[list[Any]] = [[] for _ in values]
    for worker in range(workers):
        with m.device(f"/job:worker/task:{worker}"):
            for value, of_value in zip(values, updates, strict=True):
                of_value.append(m.identity(value) * 0.5)
    applied = []
    for server, (value, of_value) in enumerate(zip(values, updates, strict=True)):
        with m.device(f"/job:ps/task:{server}"):
            applied.append(m.assign(value, m.add_n(of_value) * (1.0 / workers)).op)
    return Built(applied, init=[value.initializer for value in values])


def sparse(m: Any, workers: int, servers: int) -> Built:
    """A parameter is a matrix, of which each worker fetches and updates some rows."""
    values = [parameter(m, server, [ROWS, WIDTH], f"sparse_{server}") for server in range(servers)]
    updates = []
    for worker in range(workers):
        for server, value in enumerate(values):
            with m.device(f"/job:worker/task:{worker}"):
                picked = m.random_uniform([PICKED], 0, ROWS, m.int32, seed=1)
            with m.device(f"/job:ps/task:{server}"):
                found = m.gather(value, picked)
            with m.device(f"/job:worker/task:{worker}"):
                updates.append((server, value, picked, found * 0.5))
    applied = []
    for server, value, picked, update in updates:  # after all reads, since they run in this order
        with m.device(f"/job:ps/task:{server}"):
            applied.append(m.scatter_sub(value, picked, update).op)
    return Built(applied, init=[value.initializer for value in values])


def parameter(m: Any, server: int, shape: list[int], name: str) -> Any:
    """Return a variable on a parameter server."""
    with m.device(f"/job:ps/task:{server}"):
        return m.get_variable(name, shape=shape, initializer=m.ones_initializer())


def ring(m: Any, workers: int, servers: int) -> Built:
    """All workers reduce a MiB round one ring."""
    return reduced(m, workers, None)


def hierarchical(m: Any, workers: int, servers: int) -> Built:
    """The workers of each host reduce a MiB, then the hosts."""
    numbers = list(range(workers))
    return reduced(m, workers, [numbers[first : first + HOST] for first in range(0, workers, HOST)])


def reduced(m: Any, workers: int, groups: list[list[int]] | None) -> Built:
    """Each worker keeps the sum."""
    tensors, kept = [], []
    for worker in range(workers):
        with m.device(f"/job:worker/task:{worker}"):
            tensors.append(m.random_uniform([MIB], seed=1))
    for worker, total in enumerate(m.collectives.all_reduce(tensors, groups=groups)):
        with m.device(f"/job:worker/task:{worker}"):
            kept.append(m.identity(total).op)
    return Built(kept)
