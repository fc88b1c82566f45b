"""Products of matrices."""

from aioflow.graph.operation import Tensor
from aioflow.kernels.array.shapes import expand_dims, squeeze
from aioflow.kernels.linalg.determinants import matrix_determinant
from aioflow.kernels.linalg.matmul import matmul
from aioflow.kernels.linalg.products import einsum
from aioflow.kernels.math.arithmetic import add, multiply
from aioflow.kernels.math.casting import cast
from aioflow.onnx.call import Call
from aioflow.onnx.operators.values import rank_of
from aioflow.onnx.registry import operator


@operator("MatMul")
def _(call: Call, a: Tensor, b: Tensor) -> Tensor:
    return product(a, b)


def product(a: Tensor, b: Tensor) -> Tensor:
    """NumPy's `a @ b`: a vector is a row on the left, a column on the right."""
    left = expand_dims(a, 0) if rank_of(a) == 1 else a
    right = expand_dims(b, 1) if rank_of(b) == 1 else b
    whole = matmul(left, right)
    lost = [axis for axis, of in ((-2, a), (-1, b)) if rank_of(of) == 1]
    return squeeze(whole, lost) if lost else whole


@operator("Gemm")
def _(call: Call, a: Tensor, b: Tensor, c: Tensor | None = None) -> Tensor:
    y = _scaled(matmul(a, b, call.flag("transA"), call.flag("transB")), call.number("alpha", 1.0))
    return y if c is None else add(y, _scaled(c, call.number("beta", 1.0)))


def _scaled(x: Tensor, factor: float) -> Tensor:
    return x if factor == 1 else multiply(x, cast(factor, x.dtype))


@operator("Einsum", since=12)
def _(call: Call, *inputs: Tensor) -> Tensor:
    return einsum(call.text("equation").replace(" ", ""), *inputs)


@operator("Det", since=11)
def _(call: Call, x: Tensor) -> Tensor:
    return matrix_determinant(x)
