"""Saved models: a graph with named signatures, its variables, assets and warm-up requests, in one directory.

    signature = af.saved_model.Signature(inputs={"x": images}, outputs={"y": probabilities})
    await af.saved_model.save(session, "models/digits/1", signatures={"serving_default": signature})
    model = await af.saved_model.load("models/digits/1", other_session)

`export` finds the part of a graph that signatures need, `saving` takes the values of variables, and `writing` makes the
directory. `reading` checks a directory, and `loading` adds its operations to a graph. `manifest` describes the format.
`from_tensorflow` loads a directory that TensorFlow wrote. Beside them are TensorFlow's functions and constants, which
save and load the same directories.
This folder may use the session and what lies below it; it never serves a request.
"""

# Made by `make stubs`.

import builtins
from collections.abc import Sequence
from typing import Any

from aioflow.graph.convert import NumberLike, TensorLike, TextLike
from aioflow.graph.operation import Operation, Tensor
from aioflow.tensors.dtypes import DTypeLike, ShapeLike

from aioflow.saved_model import builder as builder
from aioflow.saved_model import constants as constants
from aioflow.saved_model import loader as loader
from aioflow.saved_model import main_op as main_op
from aioflow.saved_model import signature_constants as signature_constants
from aioflow.saved_model import signature_def_utils as signature_def_utils
from aioflow.saved_model import tag_constants as tag_constants
from aioflow.saved_model import utils as utils
from aioflow.saved_model.constants import ASSETS_DIRECTORY as ASSETS_DIRECTORY
from aioflow.saved_model.constants import ASSETS_KEY as ASSETS_KEY
from aioflow.saved_model.constants import DEBUG_DIRECTORY as DEBUG_DIRECTORY
from aioflow.saved_model.constants import DEBUG_INFO_FILENAME_PB as DEBUG_INFO_FILENAME_PB
from aioflow.saved_model.constants import LEGACY_INIT_OP_KEY as LEGACY_INIT_OP_KEY
from aioflow.saved_model.constants import MAIN_OP_KEY as MAIN_OP_KEY
from aioflow.saved_model.constants import SAVED_MODEL_FILENAME_PB as SAVED_MODEL_FILENAME_PB
from aioflow.saved_model.constants import SAVED_MODEL_FILENAME_PBTXT as SAVED_MODEL_FILENAME_PBTXT
from aioflow.saved_model.constants import SAVED_MODEL_SCHEMA_VERSION as SAVED_MODEL_SCHEMA_VERSION
from aioflow.saved_model.constants import VARIABLES_DIRECTORY as VARIABLES_DIRECTORY
from aioflow.saved_model.constants import VARIABLES_FILENAME as VARIABLES_FILENAME
from aioflow.saved_model.loader import load_v2 as load_v2
from aioflow.saved_model.loader import maybe_saved_model_directory as contains_saved_model
from aioflow.saved_model.loader import maybe_saved_model_directory as maybe_saved_model_directory
from aioflow.saved_model.loading import LoadedModel as LoadedModel
from aioflow.saved_model.loading import load as load
from aioflow.saved_model.saved_model_builder import SavedModelBuilder as Builder
from aioflow.saved_model.saved_model_builder import simple_save as simple_save
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
from aioflow.saved_model.signature_def_utils import is_valid_signature as is_valid_signature
from aioflow.saved_model.signature_def_utils import predict_signature_def as predict_signature_def
from aioflow.saved_model.signature_def_utils import regression_signature_def as regression_signature_def
from aioflow.saved_model.tag_constants import GPU as GPU
from aioflow.saved_model.tag_constants import SERVING as SERVING
from aioflow.saved_model.tag_constants import TPU as TPU
from aioflow.saved_model.tag_constants import TRAINING as TRAINING
from aioflow.saved_model.tensor_info import build_tensor_info as build_tensor_info
from aioflow.saved_model.tensor_info import get_tensor_from_tensor_info as get_tensor_from_tensor_info
from aioflow.saved_model.warmup import WarmUpRequest as WarmUpRequest

__all__ = ["ASSETS_DIRECTORY", "ASSETS_KEY", "Builder", "CLASSIFY_INPUTS", "CLASSIFY_METHOD_NAME",
    "CLASSIFY_OUTPUT_CLASSES", "CLASSIFY_OUTPUT_SCORES", "DEBUG_DIRECTORY", "DEBUG_INFO_FILENAME_PB",
    "DEFAULT_SERVING_SIGNATURE_DEF_KEY", "GPU", "LEGACY_INIT_OP_KEY", "LoadedModel", "MAIN_OP_KEY", "PREDICT_INPUTS",
    "PREDICT_METHOD_NAME", "PREDICT_OUTPUTS", "REGRESS_INPUTS", "REGRESS_METHOD_NAME", "REGRESS_OUTPUTS",
    "SAVED_MODEL_FILENAME_PB", "SAVED_MODEL_FILENAME_PBTXT", "SAVED_MODEL_SCHEMA_VERSION", "SERVING", "Signature",
    "TPU", "TRAINING", "VARIABLES_DIRECTORY", "VARIABLES_FILENAME", "WarmUpRequest", "build_signature_def",
    "build_tensor_info", "builder", "classification_signature_def", "constants", "contains_saved_model",
    "get_tensor_from_tensor_info", "is_valid_signature", "load", "load_v2", "loader", "main_op",
    "maybe_saved_model_directory", "predict_signature_def", "regression_signature_def", "save", "signature_constants",
    "signature_def_utils", "simple_save", "tag_constants", "utils"]
