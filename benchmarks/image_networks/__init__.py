"""The nine image networks of ONNX's backend tests, as the bytes of models that all sides read.

The tests' files hold the structure alone: nodes that fill weights with one number. `model` gives the weights random
values, as initial values of the graph, and sets the size of the batch, which the files fix to 1.
"""

import importlib
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]

NETWORKS: Final = {
    "AlexNet": "bvlc_alexnet", "DenseNet-121": "densenet121", "Inception v1": "inception_v1",
    "Inception v2": "inception_v2", "ResNet-50": "resnet50", "ShuffleNet": "shufflenet", "SqueezeNet": "squeezenet",
    "VGG-19": "vgg19", "ZFNet": "zfnet512",
}  # fmt: skip
"""The names of the networks, and those of their files."""


@cache
def onnx() -> Any:
    """Import onnx."""
    for part in ("helper", "numpy_helper", "backend.test"):
        importlib.import_module(f"onnx.{part}")
    return importlib.import_module("onnx")


def images(batch: int) -> Floats:
    """Return a batch of images: [batch, 3, 224, 224]."""
    return np.random.default_rng(2).standard_normal((batch, 3, 224, 224), np.float32)


def model(network: str, batch: int) -> Any:
    """Return the network with random weights, for that many images."""
    folder = Path(onnx().backend.test.__file__).parent / "data" / "light"
    made = onnx().load(folder / f"light_{NETWORKS[network]}.onnx")
    graph = made.graph
    values = {each.name: onnx().numpy_helper.to_array(each) for each in graph.initializer}
    draw = np.random.default_rng(1)
    for node in [node for node in graph.node if node.op_type == "ConstantOfShape"]:
        graph.node.remove(node)
        values[node.output[0]] = _weights(draw, tuple(values.pop(node.input[0])))
    for node in graph.node:
        if node.op_type == "Reshape" and (shape := values[node.input[1]])[0] == 1:
            values[node.input[1]] = np.array([batch, *shape[1:]])
    _fill(graph, values, batch)
    return made


def _weights(draw: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    """Positive numbers for each channel; else random weights, scaled so that activations keep their size."""
    if len(shape) == 1:
        return draw.uniform(0.5, 1.5, shape).astype(np.float32)
    return draw.standard_normal(shape, np.float32) * np.float32(np.sqrt(2 / np.prod(shape[1:])))


def _fill(graph: Any, values: dict[str, Any], batch: int) -> None:
    """Make the values the graph's initial values, and the other inputs a batch."""
    del graph.initializer[:], graph.value_info[:]
    read = {name for node in graph.node for name in node.input}
    used = {name: value for name, value in values.items() if name in read}
    graph.initializer.extend(onnx().numpy_helper.from_array(value, name) for name, value in used.items())
    inputs = [each for each in graph.input if each.name in read and each.name not in values]
    del graph.input[:]
    graph.input.extend(inputs)
    for each in (*graph.input, *graph.output):
        each.type.tensor_type.shape.dim[0].dim_value = batch


def summary(probabilities: Any) -> float:
    """Return the value that sides compare: the mean of the results, weighted by their places."""
    flat = np.ravel(probabilities)
    return float(flat @ np.cos(np.arange(flat.size)) / np.abs(flat).mean())
