"""The product of one row and a matrix that no cache holds. It takes the time of reading the matrix.

Two threads read twice as fast as one, and with float32 oneDNN has two. `matmul` computes such a product with one
thread, unless it is large: if a cache holds the matrix, as that of a small model between two requests, one thread is as
fast.
"""

from collections.abc import Callable, Sequence
from typing import Any

from aioflow.devices import onednn
from aioflow.graph.kernel import NodeView
from aioflow.graph.op import T, op
from aioflow.kernels.families import CPU, GPU, elements
from aioflow.kernels.linalg import onednn_matmul
from aioflow.kernels.linalg.matmul import matrix_product, product_shape
from aioflow.kernels.linalg.onednn_row_product import of_row
from aioflow.tensors.dtypes import NUMERIC, Array, Namespace, Spec, float32

Product = Callable[..., Array]


@op
def row_product(a: T, b: T) -> Spec:
    """The matrix product of one row and a matrix."""
    a.only(NUMERIC).same_dtype(b)
    return Spec(a.dtype, product_shape(a.with_rank(2), b.with_rank(2), False, False))


row_product.no_gradient("a plan makes it of a product that has a gradient")


@row_product.cost
def _(inputs: Sequence[Spec], outputs: Sequence[Spec], attrs: Any) -> float:
    return 2 * elements(inputs[1])


@row_product.kernel(CPU, GPU, fresh=True, binds=True)
def _(xp: Namespace, node: NodeView) -> Product:
    return matrix_product(xp)


@row_product.kernel(CPU, fresh=True, binds=True, only={float32}, priority=1, when=onednn.available)
def _(xp: Namespace, node: NodeView) -> Product:
    (a, b), lib, product = node.input_specs, onednn.library(), matrix_product(xp)
    return product if lib is None else of_row(lib, onednn_matmul.faster(lib, product, 0), a, b)
