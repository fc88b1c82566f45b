"""Compiles chains of element-wise ops to one GPU kernel, which reads and writes each element once.

The kernel's text comes from a fixed table, in an order that the plan gives; no part of it comes from a user or a peer.
CuPy compiles it at the first call. `select(c, a, b)` stands for C's `c ? a : b`.
"""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from aioflow.tensors.dtypes import Array, DType, Namespace, float32, float64

EXPRESSIONS: Final = {
    "abs": "fabs({0})",
    "add": "{0} + {1}",
    "ceil": "ceil({0})",
    "cos": "cos({0})",
    "divide": "{0} / {1}",
    "exp": "exp({0})",
    "expm1": "expm1({0})",
    "floor": "floor({0})",
    "identity": "{0}",
    "log": "log({0})",
    "log1p": "log1p({0})",
    "maximum": "select({0} != {0}, {0}, select({0} > {1}, {0}, {1}))",
    "minimum": "select({0} != {0}, {0}, select({0} < {1}, {0}, {1}))",
    "multiply": "{0} * {1}",
    "multiply_no_nan": "select({1} == 0, T(0), {0} * {1})",
    "negative": "-{0}",
    "reciprocal": "1 / {0}",
    "relu": "select({0} < 0, T(0), {0})",
    "relu_grad": "{0} * ({1} > 0)",
    "rsqrt": "1 / sqrt({0})",
    "sigmoid": "1 / (1 + exp(-{0}))",
    "sin": "sin({0})",
    "sqrt": "sqrt({0})",
    "square": "{0} * {0}",
    "squared_difference": "({0} - {1}) * ({0} - {1})",
    "subtract": "{0} - {1}",
    "tanh": "tanh({0})",
    "xdivy": "select({0} == 0, T(0), {0} / {1})",
}
"""{op: expression of its inputs}; all floats have one dtype."""
PREAMBLE: Final = "template <typename T> __device__ T select(bool c, T a, T b) { return c ? a : b; }"


class ChainLink(NamedTuple):
    """One op of a chain.

    Attributes:
        op: the name of the op.
        reads: the numbers of its operands. The inputs come first, then the results of the links.
    """

    op: str
    reads: Sequence[int]


def fusible(op: str, dtypes: Sequence[DType]) -> bool:
    """Whether an op with these input and output dtypes can be part of a chain."""
    return op in EXPRESSIONS and (set(dtypes) == {float32} or set(dtypes) == {float64})


def make_chain_kernel(
    xp: Namespace, links: Sequence[ChainLink], inputs: int, results: Sequence[int]
) -> Callable[..., Array]:
    """Return a function of `inputs` arrays, of one shape or of rank 0, that returns the values numbered `results`.

    It returns one array for one number, and a tuple for several.
    """
    lines = []
    for number, link in enumerate(links, inputs):
        text = EXPRESSIONS[link.op].format(*[f"v{read}" for read in link.reads])
        lines.append(f"T v{number} = {text};")
    lines += [f"r{number} = v{number};" for number in results]
    taken = ", ".join([f"T v{number}" for number in range(inputs)])
    given = ", ".join([f"T r{number}" for number in results])
    kernel: Callable[..., Array] = xp.ElementwiseKernel(
        taken, given, "\n".join(lines), "aioflow_chain", preamble=PREAMBLE
    )
    return kernel
