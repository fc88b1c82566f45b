"""`af.saved_model.signature_constants`: the names that signatures share."""

from typing import Final

from aioflow.lazy import Face
from aioflow.saved_model.signature import SERVING_DEFAULT

DEFAULT_SERVING_SIGNATURE_DEF_KEY: Final = SERVING_DEFAULT
PREDICT_METHOD_NAME: Final = "predict"
PREDICT_INPUTS: Final = "inputs"
PREDICT_OUTPUTS: Final = "outputs"
CLASSIFY_METHOD_NAME: Final = "classify"
CLASSIFY_INPUTS: Final = "inputs"
CLASSIFY_OUTPUT_CLASSES: Final = "classes"
CLASSIFY_OUTPUT_SCORES: Final = "scores"
REGRESS_METHOD_NAME: Final = "regress"
REGRESS_INPUTS: Final = "inputs"
REGRESS_OUTPUTS: Final = "outputs"
Face(__name__, {
    __name__: (
        "CLASSIFY_INPUTS CLASSIFY_METHOD_NAME CLASSIFY_OUTPUT_CLASSES CLASSIFY_OUTPUT_SCORES "
        "DEFAULT_SERVING_SIGNATURE_DEF_KEY PREDICT_INPUTS PREDICT_METHOD_NAME PREDICT_OUTPUTS REGRESS_INPUTS "
        "REGRESS_METHOD_NAME REGRESS_OUTPUTS"
    )
})  # fmt: skip
