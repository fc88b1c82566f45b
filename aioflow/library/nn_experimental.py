"""`af.nn.experimental`: dropout whose random numbers follow from a seed."""

from aioflow.lazy import Face

_face = Face(__name__, {"aioflow.library.stateless_dropout": "stateless_dropout"})
