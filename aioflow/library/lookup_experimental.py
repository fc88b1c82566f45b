"""`af.lookup.experimental`: lookup tables that steps change."""

from aioflow.lazy import Face

_face = Face(__name__, {"aioflow.library.mutable_tables": "DenseHashTable MutableHashTable"})
