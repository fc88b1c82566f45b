"""A value of several tensors: a sparse tensor, or slices of a tensor."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from aioflow.notebook.card import card, facts, table

if TYPE_CHECKING:
    from aioflow.graph.operation import Tensor
    from aioflow.tensors.dtypes import DType, TensorShape


def composed_html(
    kind: str, name: str, dtype: "DType", shape: "TensorShape", parts: "Mapping[str, Tensor | None]", line: str
) -> str:
    """A value of several tensors.

    Args:
        kind: its class.
        name: its name.
        dtype: the dtype of its elements.
        shape: the shape of the whole.
        parts: its tensors by their roles; those that are None are left out.
        line: the user's line that built it.
    """
    rows = [(role, each.name, str(each.spec), each.op.type) for role, each in parts.items() if each is not None]
    whole = facts([("dtype", dtype.name), ("shape", str(shape)), ("built at", line)])
    return card(name, whole, table(rows, ("part", "tensor", "dtype and shape", "result of")), note=kind)
