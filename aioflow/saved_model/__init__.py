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

from aioflow.lazy import Face

_face = Face(__name__, {
    ".": "builder constants loader main_op signature_constants signature_def_utils tag_constants utils",
    "aioflow.saved_model.constants": (
        "ASSETS_DIRECTORY ASSETS_KEY DEBUG_DIRECTORY DEBUG_INFO_FILENAME_PB LEGACY_INIT_OP_KEY MAIN_OP_KEY "
        "SAVED_MODEL_FILENAME_PB SAVED_MODEL_FILENAME_PBTXT SAVED_MODEL_SCHEMA_VERSION VARIABLES_DIRECTORY "
        "VARIABLES_FILENAME"
    ),
    "aioflow.saved_model.loader": (
        "contains_saved_model=maybe_saved_model_directory load_v2 maybe_saved_model_directory"
    ),
    "aioflow.saved_model.loading": "LoadedModel load",
    "aioflow.saved_model.saved_model_builder": "Builder=SavedModelBuilder simple_save",
    "aioflow.saved_model.saving": "save",
    "aioflow.saved_model.signature": "Signature",
    "aioflow.saved_model.signature_constants": (
        "CLASSIFY_INPUTS CLASSIFY_METHOD_NAME CLASSIFY_OUTPUT_CLASSES CLASSIFY_OUTPUT_SCORES "
        "DEFAULT_SERVING_SIGNATURE_DEF_KEY PREDICT_INPUTS PREDICT_METHOD_NAME PREDICT_OUTPUTS REGRESS_INPUTS "
        "REGRESS_METHOD_NAME REGRESS_OUTPUTS"
    ),
    "aioflow.saved_model.signature_def_utils": (
        "build_signature_def classification_signature_def is_valid_signature predict_signature_def "
        "regression_signature_def"
    ),
    "aioflow.saved_model.tag_constants": "GPU SERVING TPU TRAINING",
    "aioflow.saved_model.tensor_info": "build_tensor_info get_tensor_from_tensor_info",
    "aioflow.saved_model.warmup": "WarmUpRequest",
})  # fmt: skip
