"""`af.random.experimental`: generators, seeds made of seeds, and random orders that follow from them."""

from aioflow.lazy import Face

_face = Face(__name__, {
    "aioflow.kernels.math.index_shuffle": "index_shuffle=random_index_shuffle",
    "aioflow.library.random_generator": (
        "Algorithm Generator create_rng_state get_global_generator set_global_generator"
    ),
    "aioflow.library.stateless_random": "stateless_fold_in stateless_shuffle stateless_split",
})  # fmt: skip
