"""Inputs for every op: what the tests that run over the registry feed it, so that no op can escape them."""

import dataclasses
from collections.abc import Callable
from typing import Any


@dataclasses.dataclass(frozen=True)
class Sample:
    """One way to call an op.

    Attributes:
        build: the call, on tensors: tensors in, the op's result out.
        inputs: arrays, fed for the tensors. Floating inputs are float64, away from kinks and poles.
        reference: the same on arrays in NumPy or SciPy; None only where the test of the op's own file compares.
        gradient: whether the finite-difference test uses this sample.
    """

    build: Callable[..., Any]
    inputs: tuple[Any, ...] = ()
    reference: Callable[..., Any] | None = None
    gradient: bool = True


SAMPLES: dict[str, list[Sample]] = {}
"""By name of the op. Filled by the modules of this package."""


def sample(
    op: str, build: Callable[..., Any], *inputs: Any, reference: Callable[..., Any] | None = None, gradient: bool = True
) -> None:
    """Add one way to call `op`."""
    SAMPLES.setdefault(op, []).append(Sample(build, inputs, reference, gradient))
