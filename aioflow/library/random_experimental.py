"""`af.random.experimental`: seeds made of seeds, and random orders that follow from them."""

from aioflow.lazy import Face

_face = Face(__name__, {
    "aioflow.kernels.math.index_shuffle": "index_shuffle=random_index_shuffle",
    "aioflow.library.stateless_random": "stateless_fold_in stateless_shuffle stateless_split",
})  # fmt: skip
