"""Placing nodes on simulated devices: the time by the size of the graph, and the quality of the result.

Nothing runs: devices are names, and the step is simulated with the estimates of the placement itself. The measured time
is the process's own time for all of placing: constraints, estimates, choice.
"""

import itertools
import math
import random
import statistics
import time
from collections.abc import AsyncIterator

import aioflow as af
from aioflow.plan.cost_model import CostModel
from aioflow.plan.op_cost import Site
from aioflow.plan.passes.flow import Flow
from aioflow.plan.passes.prune import prune
from aioflow.plan.placement.constraints import demands
from aioflow.plan.placement.refinement import place
from aioflow.plan.placement.simulation import Layout, simulate
from aioflow.plan.placement.work import Work
from benchmarks.building import LINEAR
from benchmarks.harness import freeze
from benchmarks.report import Claim, Row, span

SIZES = (12_500, 25_000, 50_000, 100_000)
TOWERS = 64
SMALL = ((2, 0, 9), (3, 0, 7), (2, 1, 7), (1, 1, 9))
"""CPUs, GPUs and nodes of the graphs whose best placement is searched, among hundreds to thousands."""
GRAPHS = 25


async def rows() -> AsyncIterator[Row]:
    """Measure the time by the number of nodes, and the simulated step relative to the best possible one."""
    yield growth()
    yield quality()


def devices(cpus: int, gpus: int) -> list[Site]:
    """Return that many devices of one task."""
    names = [*[f"CPU:{index}" for index in range(cpus)], *[f"GPU:{index}" for index in range(gpus)]]
    return [Site.from_string(f"/job:localhost/replica:0/task:0/device:{name}") for name in names]


def growth() -> Row:
    """Return seconds for towers of layers without requests, so that every node may go to every device."""
    figures, seconds = {}, []
    for nodes in SIZES:
        flow = towers(nodes)
        freeze()
        begin = time.process_time()
        found = place(flow, devices(48, 16), CostModel())
        seconds.append(time.process_time() - begin)
        used = len(set(found.devices.values()))
        figures[f"{nodes:,} nodes"] = f"{span(seconds[-1])}, {span(seconds[-1] / nodes)} per node, {used} devices used"
    power = math.log(seconds[-1] / seconds[0]) / math.log(SIZES[-1] / SIZES[0])
    claims = [
        Claim(f"placing {SIZES[-1]:,} nodes on 64 devices", seconds[-1], 10, unit=" s"),
        Claim("time as a power of nodes", power, LINEAR),
    ]
    return Row("placement on 48 CPUs and 16 GPUs, simulated", figures, claims)


def towers(nodes: int) -> Flow:
    """Return the flow of a graph of about that many nodes: towers of consecutive layers, and a sum over towers."""
    with af.Graph().as_default():
        inputs = [af.placeholder(af.float32, [256, 256]) for _ in range(TOWERS)]
        ends = []
        for tower in inputs:
            hidden = tower
            for _ in range(nodes // TOWERS // 3):
                hidden = af.nn.relu(af.add(af.matmul(hidden, tower), hidden))
            ends.append(hidden)
        return prune(inputs, [af.add_n(ends)], [])


def quality() -> Row:
    """Return the ratio of the simulated step to the shortest one, on small random graphs of matrix products."""
    figures, everything = {}, []
    for cpus, gpus, nodes in SMALL:
        ratios = [ratio(random.Random(seed), cpus, gpus, nodes) for seed in range(GRAPHS)]
        everything += ratios
        figures[f"{cpus} CPUs, {gpus} GPUs"] = (
            f"{GRAPHS} graphs of {nodes} nodes: median {statistics.median(ratios):.3f}, "
            f"mean {statistics.mean(ratios):.3f}, worst {max(ratios):.3f} of the best"
        )
    claim = Claim("simulated step / the best, median", statistics.median(everything), 1.15)
    return Row("placement of small random graphs, beside exhaustive search", figures, [claim])


def ratio(draw: random.Random, cpus: int, gpus: int, nodes: int) -> float:
    """Return the ratio for one random graph."""
    flow, sites, model = products(draw, nodes), devices(cpus, gpus), CostModel()
    layout = Layout(sites, model)
    work = Work(flow, demands(flow, sites, soft=False, homes={}), layout.kinds, model)
    places = itertools.product(range(len(sites)), repeat=len(work.nodes))
    return place(flow, sites, model).makespan / min(simulate(work, layout, each).makespan for each in places)


def products(draw: random.Random, nodes: int) -> Flow:
    """Return the flow of a random graph of matrix products that take microseconds to some milliseconds."""
    with af.Graph().as_default():
        fed = [af.placeholder(af.float32, [size, size]) for size in (16, 64, 128, 256, 512)]
        made: list[af.Tensor] = []
        for _ in range(nodes):
            left = draw.choice([*fed, *made])
            fitting = [right for right in (*fed, *made) if right.shape[0] == left.shape[1]]
            made.append(af.matmul(left, draw.choice(fitting)))
        return prune(fed, [], [tensor.op for tensor in made if not tensor.consumers()])
