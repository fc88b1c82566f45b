"""Loading a model of 100 MiB in the ONNX format: seconds, and how much the peak of resident memory grows.

The peer is `onnx.load`, which only parses the file: it builds nothing. Each load is the first large one of a process. A
small model before it has imported everything. aioflow maps the file, so a page that nothing has read costs no time and
no memory yet; the last figure is therefore the time with a reading of all weights.
"""

import asyncio
import statistics
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np

from benchmarks import peers
from benchmarks.report import Claim, Row, size, span

LAYERS, WIDTH, ROUNDS = 25, 1024, 5
ONNX = "onnx.load"
SIDES = {
    peers.AIOFLOW: (
        "af.onnx.load({path!r}, af.Graph())",
        "[each.initial_value.op.attrs['value'] for each in model.variables.values()]",
    ),
    ONNX: ("onnx.load({path!r})", "[onnx.numpy_helper.to_array(each) for each in model.graph.initializer]"),
}
"""For each side how it loads, and the weights of the model that it has loaded."""
PROBE = """
import time
import aioflow as af, onnx, onnx.numpy_helper
peak = lambda: next(int(line.split()[1]) * 1024 for line in open("/proc/self/status") if line.startswith("VmHWM"))
model = {small}
sum(float(each.sum()) for each in {weights})
before, begin = peak(), time.perf_counter()
model = {large}
loaded, grown = time.perf_counter() - begin, peak() - before
sum(float(each.sum()) for each in {weights})
print(loaded, grown, time.perf_counter() - begin)
"""


async def rows() -> AsyncIterator[Row]:
    """Measure both sides in alternation."""
    taken: dict[str, list[tuple[float, float, float]]] = {side: [] for side in SIDES}
    with tempfile.TemporaryDirectory() as folder:
        large, small = Path(folder, "large.onnx"), Path(folder, "small.onnx")
        nbytes = write_model(large, LAYERS)
        write_model(small, 1)
        for _ in range(ROUNDS):
            for side, samples in taken.items():
                samples.append(await probe(side, small, large))
    figures = {side: figure(samples) for side, samples in taken.items()}
    yield Row(f"ONNX file of {size(nbytes)}", figures, claims(taken[peers.AIOFLOW], taken[ONNX]))


def figure(samples: list[tuple[float, float, float]]) -> str:
    loaded, grown, read = [statistics.median(column) for column in zip(*samples, strict=True)]
    return f"{span(loaded):>10}   peak + {size(grown)}   with all weights read {span(read)}"


def claims(mine: list[tuple[float, float, float]], theirs: list[tuple[float, float, float]]) -> list[Claim]:
    ratios = [[a / b for a, b in zip(*pair, strict=True)] for pair in zip(mine, theirs, strict=True)]
    time, memory, read = [statistics.median(column) for column in zip(*ratios, strict=True)]
    return [
        Claim(f"{peers.AIOFLOW} / {ONNX}, time", time, 2),
        Claim(f"{peers.AIOFLOW} / {ONNX}, memory", memory, 2),
        Claim(f"{peers.AIOFLOW} / {ONNX}, time with all weights read", read, 2),
    ]


def write_model(path: Path, layers: int) -> int:
    """Write a network of dense layers; the bytes of its file."""
    from onnx import TensorProto, helper, numpy_helper

    weights = {f"layer{i}.weight": np.full((WIDTH, WIDTH), i, np.float32) for i in range(layers)}
    names = ["x", *[f"h{i}" for i in range(layers)]]
    nodes = [
        helper.make_node("MatMul", [x, weight], [y]) for x, weight, y in zip(names, weights, names[1:], strict=False)
    ]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", WIDTH]) for name in ("x", names[-1])]
    initials = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "dense", ends[:1], ends[1:], initials)
    return path.write_bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)]).SerializeToString())


async def probe(side: str, small: Path, large: Path) -> tuple[float, float, float]:
    """Seconds to load, growth of the peak in bytes, and seconds to load and read, of one load in a new process."""
    load, weights = SIDES[side]
    text = PROBE.format(small=load.format(path=str(small)), large=load.format(path=str(large)), weights=weights)
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", text, stdout=asyncio.subprocess.PIPE)
    output, _ = await process.communicate()
    loaded, grown, read = map(float, output.split())
    return loaded, max(grown, 1.0), read
