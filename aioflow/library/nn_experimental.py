"""`af.nn.experimental`: dropout whose random numbers follow from a seed, or that a function makes."""

from aioflow.lazy import Face

_face = Face(__name__, {"aioflow.library.stateless_dropout": "general_dropout stateless_dropout"})
