"""`af.weights_broadcast`: checks of weights against the values that they weigh."""

from aioflow.lazy import Face

_face = Face(__name__, {
    "aioflow.library.weights": "assert_broadcastable broadcast_weights",
})  # fmt: skip
