"""The net in eager PyTorch: nn.Sequential, cross_entropy, SGD, channels first."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from benchmarks import peers
from benchmarks.harness import Step
from benchmarks.lenet import SIDE, Floats, Layer, Problem, summary


@asynccontextmanager
async def training(problem: Problem, device: str = "cpu") -> AsyncIterator[Step]:
    """Yield a step that trains once on the batch, which is in host memory, and returns its loss."""
    torch = peers.torch()
    net, images = model(problem)
    net.to(device)
    optimizer = torch.optim.SGD(net.parameters(), lr=problem.rate)
    labels = torch.from_numpy(problem.labels).long()

    def step() -> Any:
        optimizer.zero_grad(set_to_none=True)
        loss = torch.nn.functional.cross_entropy(net(images.to(device)), labels.to(device))
        loss.backward()
        optimizer.step()
        return loss.item()

    yield step


@asynccontextmanager
async def inference(problem: Problem) -> AsyncIterator[Step]:
    """Yield a step that computes the logits of the batch."""
    torch = peers.torch()
    net, images = model(problem)

    def step() -> float:
        with torch.inference_mode():
            return summary(net(images).numpy())

    yield step


def model(problem: Problem) -> tuple[Any, Any]:
    """Return the net with the problem's initial weights, and the images of the batch."""
    torch = peers.torch()
    *convolutions, first, last = problem.layers()
    layers: list[Any] = []
    for filters, bias in convolutions:
        layers += [convolution(filters, bias), torch.nn.ReLU(), torch.nn.MaxPool2d(2)]
    layers += [torch.nn.Flatten(), linear(channels_first(first)), torch.nn.ReLU(), linear(last)]
    return torch.nn.Sequential(*layers), torch.from_numpy(problem.images).permute(0, 3, 1, 2).contiguous()


def convolution(filters: Floats, bias: Floats) -> Any:
    """Return a convolution that keeps the size of its planes."""
    torch = peers.torch()
    height, width, channels, outputs = filters.shape
    layer = torch.nn.Conv2d(channels, outputs, (height, width), padding="same")
    return filled(layer, filters.transpose(3, 2, 0, 1), bias)


def linear(layer: Layer) -> Any:
    """Return a dense layer."""
    torch = peers.torch()
    return filled(torch.nn.Linear(*layer.weights.shape), layer.weights.T, layer.bias)


def channels_first(layer: Layer) -> Layer:
    """Return the layer with its inputs in the order in which PyTorch flattens planes."""
    planes = layer.weights.reshape(SIDE // 4, SIDE // 4, -1, layer.weights.shape[1])
    return Layer(planes.transpose(2, 0, 1, 3).reshape(layer.weights.shape), layer.bias)


def filled(module: Any, weights: Floats, bias: Floats) -> Any:
    """Return the module with these weights."""
    torch = peers.torch()
    with torch.no_grad():
        module.weight.copy_(torch.from_numpy(weights))
        module.bias.copy_(torch.from_numpy(bias))
    return module
