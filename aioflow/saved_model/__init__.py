"""Saved models: a graph with named signatures, its variables, assets and warm-up requests, in one directory.

    signature = af.saved_model.Signature(inputs={"x": images}, outputs={"y": probabilities})
    await af.saved_model.save(session, "models/digits/1", signatures={"serving_default": signature})
    model = await af.saved_model.load("models/digits/1", other_session)

`export` finds the part of a graph that signatures need, `saving` takes the values of variables, and `writing` makes the
directory. `reading` checks a directory, and `loading` adds its operations to a graph. `manifest` describes the format.
`from_tensorflow` loads a directory that TensorFlow wrote.
This folder may use the session and what lies below it; it never serves a request.
"""

from aioflow.lazy import Face

_face = Face(__name__, {
    ".": "signature_constants signature_def_utils",
    "aioflow.saved_model.loading": "LoadedModel load",
    "aioflow.saved_model.saving": "save",
    "aioflow.saved_model.signature": "Signature",
    "aioflow.saved_model.signature_constants": (
        "CLASSIFY_INPUTS CLASSIFY_METHOD_NAME CLASSIFY_OUTPUT_CLASSES CLASSIFY_OUTPUT_SCORES "
        "DEFAULT_SERVING_SIGNATURE_DEF_KEY PREDICT_INPUTS PREDICT_METHOD_NAME PREDICT_OUTPUTS REGRESS_INPUTS "
        "REGRESS_METHOD_NAME REGRESS_OUTPUTS"
    ),
    "aioflow.saved_model.signature_def_utils": (
        "build_signature_def classification_signature_def predict_signature_def regression_signature_def"
    ),
    "aioflow.saved_model.warmup": "WarmUpRequest",
})  # fmt: skip
