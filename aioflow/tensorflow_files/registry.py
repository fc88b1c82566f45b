"""The table of TensorFlow's ops: for each the function that builds it.

    @operator("LeakyRelu")
    def _(call: Call, features: Tensor) -> Tensor:
        return leaky_relu(features, call.number("alpha", 0.2), name=call.name)

The function gets the inputs of a node, and returns its outputs: one or a tuple, None for those that aioflow does not
make, or an operation without outputs. It builds operations of aioflow in the default graph.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, Final

from aioflow.graph.op import REGISTRY
from aioflow.lazy import Registry
from aioflow.tensorflow_files.call import Call

Build = Callable[..., Any]
"""(call, *inputs) -> one output, a tuple of outputs, or an operation."""


@dataclasses.dataclass(frozen=True, slots=True)
class Rule:
    """How an op is built.

    Attributes:
        build: the function.
        results: the names of its results, by which functions tell apart the outputs of ops that have several. A name
            with "*" stands for all further outputs.
        references: whether it takes variables themselves, and not their values.
    """

    build: Build
    results: tuple[str, ...] = ()
    references: bool = False


OPERATORS: Final[Registry[Rule]] = Registry("aioflow.tensorflow_files.operators")
"""{op of TensorFlow: how it is built}."""


def operator(*ops: str, results: str = "", references: bool = False) -> Callable[[Build], Build]:
    """Declare the function that builds these ops."""

    def declare(build: Build) -> Build:
        for op in ops:
            if op in OPERATORS:
                raise ValueError(f"op {op} is declared twice")
            OPERATORS[op] = Rule(build, tuple(results.split()), references)
        return build

    return declare


@dataclasses.dataclass(frozen=True, slots=True)
class Same:
    """Builds an op of aioflow for the same inputs, without attributes.

    Attributes:
        name: the name of the op.
    """

    name: str

    def __call__(self, call: Call, *inputs: Any) -> Any:
        """Build it."""
        return REGISTRY[self.name](*inputs, name=call.name)


def same(ops: str) -> None:
    """Declare ops that are one of aioflow's, with the same inputs and no attributes: `Relu=relu Exp=exp`."""
    for pair in ops.split():
        op, name = pair.split("=")
        operator(op)(Same(name))
