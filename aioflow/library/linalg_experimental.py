"""`af.linalg.experimental`: linear equations solved step by step."""

from aioflow.lazy import Face

_face = Face(__name__, {"aioflow.library.linear_operators.conjugate_gradient": "conjugate_gradient"})
