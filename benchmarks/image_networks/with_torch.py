"""The networks in eager PyTorch: a function for each operator of the model, called in the order of its nodes."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

from benchmarks import peers
from benchmarks.harness import Step
from benchmarks.image_networks import Floats, onnx, summary

Attributes = Mapping[str, Any]
Operator = Callable[..., Any]


@asynccontextmanager
async def with_torch(model: Any, images: Floats) -> AsyncIterator[Step]:
    """Yield a step that computes the results for the images."""
    torch = peers.torch()
    graph = model.graph
    weights = {each.name: torch.tensor(onnx().numpy_helper.to_array(each)) for each in graph.initializer}
    batch = torch.from_numpy(images)
    calls = [(_operator(node), list(node.input), node.output[0]) for node in graph.node]

    def step() -> float:
        values = {**weights, graph.input[0].name: batch}
        with torch.inference_mode():
            for function, inputs, output in calls:
                values[output] = function(*[values[name] for name in inputs])
        return summary(values[graph.output[0].name].numpy())

    yield step


def _operator(node: Any) -> Operator:
    """Return the function of the inputs of a node."""
    attributes = {each.name: onnx().helper.get_attribute_value(each) for each in node.attribute}
    return _OPERATORS[node.op_type](attributes)


def _functions() -> Any:
    return peers.torch().nn.functional


def _pads(attributes: Attributes) -> tuple[list[int], list[int]]:
    """Return the padding before and after each axis as one number if they are the same; else what `pad` takes, too."""
    top, left, bottom, right = attributes.get("pads", [0, 0, 0, 0])
    return ([top, left], []) if (top, left) == (bottom, right) else ([0, 0], [left, right, top, bottom])


def _convolution(attributes: Attributes) -> Operator:
    (padding, _), strides = _pads(attributes), attributes.get("strides", [1, 1])
    groups = attributes.get("group", 1)
    return lambda x, w, b=None: _functions().conv2d(x, w, b, strides, padding, 1, groups)


def _highest(attributes: Attributes) -> Operator:
    (padding, around), kernel = _pads(attributes), attributes["kernel_shape"]
    strides, pool, pad = attributes["strides"], _functions().max_pool2d, _functions().pad
    if around:
        return lambda x: pool(pad(x, around, value=-float("inf")), kernel, strides)
    return lambda x: pool(x, kernel, strides, padding)


def _mean(attributes: Attributes) -> Operator:
    (padding, around), kernel = _pads(attributes), attributes["kernel_shape"]
    strides, pool = attributes.get("strides", [1, 1]), _functions().avg_pool2d
    if not around:
        return lambda x: pool(x, kernel, strides, padding, False, False)
    pad = _functions().pad
    return lambda x: pool(pad(x, around), kernel, strides) / pool(pad(x[:1, :1] * 0 + 1, around), kernel, strides)


def _normalisation(attributes: Attributes) -> Operator:
    epsilon = attributes.get("epsilon", 1e-5)
    return lambda x, scale, offset, mean, variance: _functions().batch_norm(
        x, mean, variance, scale, offset, False, 0.0, epsilon
    )


def _neighbours(attributes: Attributes) -> Operator:
    size, alpha, beta, bias = (attributes[name] for name in ("size", "alpha", "beta", "bias"))
    return lambda x: _functions().local_response_norm(x, size, alpha, beta, bias)


def _product(attributes: Attributes) -> Operator:
    if not attributes.get("transB"):
        raise ValueError("the weights of a product are not transposed")
    return lambda x, w, b: _functions().linear(x, w, b)


def _unsqueezed(attributes: Attributes) -> Operator:
    places = attributes["axes"]

    def compute(x: Any) -> Any:
        for place in places:
            x = x.unsqueeze(place)
        return x

    return compute


_OPERATORS: Final[Mapping[str, Callable[[Attributes], Operator]]] = {
    "Add": lambda _: lambda x, y: x + y,
    "AveragePool": _mean,
    "BatchNormalization": _normalisation,
    "Concat": lambda attributes: lambda *parts: peers.torch().cat(parts, attributes["axis"]),
    "Conv": _convolution,
    "Dropout": lambda _: lambda x: x,
    "Gemm": _product,
    "GlobalAveragePool": lambda _: lambda x: x.mean((2, 3), keepdim=True),
    "LRN": _neighbours,
    "MaxPool": _highest,
    "Mul": lambda _: lambda x, y: x * y,
    "Relu": lambda _: lambda x: _functions().relu(x),
    "Reshape": lambda _: lambda x, shape: x.reshape(tuple(shape.tolist())),
    "Softmax": lambda _: lambda x: _functions().softmax(x, 1),
    "Sum": lambda _: lambda x, y: x + y,
    "Transpose": lambda attributes: lambda x: x.permute(attributes["perm"]),
    "Unsqueeze": _unsqueezed,
}
