"""The MLP in eager PyTorch: nn.Sequential, cross_entropy, SGD."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from benchmarks import peers
from benchmarks.harness import Step
from benchmarks.mlp import Problem


@asynccontextmanager
async def training(problem: Problem) -> AsyncIterator[Step]:
    """Yield a step that trains once on the batch and returns its loss."""
    yield trainer(problem)


def trainer(problem: Problem) -> Callable[[], float]:
    """Return the training step as a plain function."""
    torch = peers.torch()
    net = model(problem)
    optimizer = torch.optim.SGD(net.parameters(), lr=problem.rate)
    images, labels = torch.from_numpy(problem.images), torch.from_numpy(problem.labels).long()

    def step() -> float:
        optimizer.zero_grad(set_to_none=True)
        loss = torch.nn.functional.cross_entropy(net(images), labels)
        loss.backward()
        optimizer.step()
        return loss.item()  # type: ignore[no-any-return]

    return step


def model(problem: Problem) -> Any:
    """Return linear layers with ReLU between them, with the problem's initial weights."""
    torch = peers.torch()
    layers: list[Any] = []
    for weights, bias in problem.weights():
        linear = torch.nn.Linear(*weights.shape)
        with torch.no_grad():
            linear.weight.copy_(torch.from_numpy(weights.T))
            linear.bias.copy_(torch.from_numpy(bias))
        layers += [torch.nn.ReLU(), linear] if layers else [linear]
    return torch.nn.Sequential(*layers)
