"""Saved models: a graph with named signatures, its variables, assets and warm-up requests, in one directory.

    signature = af.saved_model.Signature(inputs={"x": images}, outputs={"y": probabilities})
    await af.saved_model.save(session, "models/digits/1", signatures={"serving_default": signature})
    model = await af.saved_model.load("models/digits/1", other_session)

`export` finds the part of a graph that signatures need, `saving` takes the values of variables, and `writing` makes the
directory. `reading` checks a directory, and `loading` adds its operations to a graph. `manifest` describes the format.
This folder may use the session and what lies below it; it never serves a request.
"""

# Made by `make stubs`.

import builtins
from collections.abc import Sequence
from typing import Any

from aioflow.graph.convert import NumberLike, TensorLike, TextLike
from aioflow.graph.operation import Operation, Tensor
from aioflow.tensors.dtypes import DTypeLike, ShapeLike

from aioflow.saved_model.loading import LoadedModel as LoadedModel
from aioflow.saved_model.loading import load as load
from aioflow.saved_model.saving import save as save
from aioflow.saved_model.signature import Signature as Signature
from aioflow.saved_model.warmup import WarmUpRequest as WarmUpRequest

__all__ = ["LoadedModel", "Signature", "WarmUpRequest", "load", "save"]
