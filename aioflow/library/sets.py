"""`af.sets`: the rows of tensors as sets, under the names TensorFlow has for them."""

from aioflow.kernels.sparse.sets import set_difference, set_intersection, set_size, set_union

difference, intersection, size, union = set_difference, set_intersection, set_size, set_union

__all__ = [
    "difference", "intersection", "set_difference", "set_intersection", "set_size", "set_union", "size", "union",
]  # fmt: skip
