"""`af.sets`: operations on rows of tensors as sets, under TensorFlow's names."""

from aioflow.lazy import Face

_face = Face(__name__, {
    "aioflow.kernels.sparse.sets": (
        "difference=set_difference intersection=set_intersection set_difference set_intersection set_size set_union "
        "size=set_size union=set_union"
    ),
})  # fmt: skip
