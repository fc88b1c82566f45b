"""Saved models: a graph with named signatures, its variables, assets and warm-up requests, in one directory.

Input: a session and signatures, or a directory. Output: a directory, or tensors of a graph and initialized variables.
This folder may use the session and what lies below it; it never serves a request.
"""

from aioflow.lazy import Face

_face = Face(__name__, {
    "aioflow.saved_model.signature": "Signature",
})  # fmt: skip
