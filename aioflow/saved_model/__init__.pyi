"""Saved models: a graph with named signatures, its variables, assets and warm-up requests, in one directory.

    signature = af.saved_model.Signature(inputs={"x": images}, outputs={"y": probabilities})
    await af.saved_model.save(session, "models/digits/1", signatures={"serving_default": signature})
    model = await af.saved_model.load("models/digits/1", other_session)

`export` finds the part of a graph that signatures need, `saving` takes the values of variables, and `writing` makes the
directory. `reading` checks a directory, and `loading` adds its operations to a graph. `manifest` describes the format.
`from_tensorflow` loads a directory that TensorFlow wrote.
This folder may use the session and what lies below it; it never serves a request.
"""

# Made by `make stubs`.

import builtins
from collections.abc import Sequence
from typing import Any

from aioflow.graph.convert import NumberLike, TensorLike, TextLike
from aioflow.graph.operation import Operation, Tensor
from aioflow.tensors.dtypes import DTypeLike, ShapeLike

from aioflow.saved_model import signature_constants as signature_constants
from aioflow.saved_model import signature_def_utils as signature_def_utils
from aioflow.saved_model.loading import LoadedModel as LoadedModel
from aioflow.saved_model.loading import load as load
from aioflow.saved_model.saving import save as save
from aioflow.saved_model.signature import Signature as Signature
from aioflow.saved_model.signature_constants import CLASSIFY_INPUTS as CLASSIFY_INPUTS
from aioflow.saved_model.signature_constants import CLASSIFY_METHOD_NAME as CLASSIFY_METHOD_NAME
from aioflow.saved_model.signature_constants import CLASSIFY_OUTPUT_CLASSES as CLASSIFY_OUTPUT_CLASSES
from aioflow.saved_model.signature_constants import CLASSIFY_OUTPUT_SCORES as CLASSIFY_OUTPUT_SCORES
from aioflow.saved_model.signature_constants import DEFAULT_SERVING_SIGNATURE_DEF_KEY as DEFAULT_SERVING_SIGNATURE_DEF_KEY
from aioflow.saved_model.signature_constants import PREDICT_INPUTS as PREDICT_INPUTS
from aioflow.saved_model.signature_constants import PREDICT_METHOD_NAME as PREDICT_METHOD_NAME
from aioflow.saved_model.signature_constants import PREDICT_OUTPUTS as PREDICT_OUTPUTS
from aioflow.saved_model.signature_constants import REGRESS_INPUTS as REGRESS_INPUTS
from aioflow.saved_model.signature_constants import REGRESS_METHOD_NAME as REGRESS_METHOD_NAME
from aioflow.saved_model.signature_constants import REGRESS_OUTPUTS as REGRESS_OUTPUTS
from aioflow.saved_model.signature_def_utils import build_signature_def as build_signature_def
from aioflow.saved_model.signature_def_utils import classification_signature_def as classification_signature_def
from aioflow.saved_model.signature_def_utils import predict_signature_def as predict_signature_def
from aioflow.saved_model.signature_def_utils import regression_signature_def as regression_signature_def
from aioflow.saved_model.warmup import WarmUpRequest as WarmUpRequest

__all__ = ["CLASSIFY_INPUTS", "CLASSIFY_METHOD_NAME", "CLASSIFY_OUTPUT_CLASSES", "CLASSIFY_OUTPUT_SCORES",
    "DEFAULT_SERVING_SIGNATURE_DEF_KEY", "LoadedModel", "PREDICT_INPUTS", "PREDICT_METHOD_NAME", "PREDICT_OUTPUTS",
    "REGRESS_INPUTS", "REGRESS_METHOD_NAME", "REGRESS_OUTPUTS", "Signature", "WarmUpRequest", "build_signature_def",
    "classification_signature_def", "load", "predict_signature_def", "regression_signature_def", "save",
    "signature_constants", "signature_def_utils"]
