"""`af.saved_model.signature_def_utils`: signatures, made by TensorFlow's functions."""

from collections.abc import Mapping

from aioflow.graph.operation import Tensor
from aioflow.lazy import Face
from aioflow.saved_model import signature_constants as names
from aioflow.saved_model.signature import Method, Signature
from aioflow.saved_model.tensor_info import TensorInfo, get_tensor_from_tensor_info


def build_signature_def(
    inputs: Mapping[str, Tensor | TensorInfo] | None = None,
    outputs: Mapping[str, Tensor | TensorInfo] | None = None,
    method_name: Method | None = None,
) -> Signature:
    """The `Signature` of these tensors by their names. A TensorInfo stands for the tensor of the default graph.

    Examples:
        >>> x = af.placeholder(af.float32, [None], name="x")
        >>> af.saved_model.build_signature_def({"x": x}, {"y": x + 1.0}, "predict").describe()
        '(x: float32[?]) -> (y: float32[?])'
    """
    return Signature(_tensors(inputs or {}), _tensors(outputs or {}), method_name or "predict")


def _tensors(given: Mapping[str, Tensor | TensorInfo]) -> dict[str, Tensor]:
    return {
        name: get_tensor_from_tensor_info(each) if isinstance(each, TensorInfo) else each
        for name, each in given.items()
    }


def is_valid_signature(signature_def: object) -> bool:
    """Whether this is a `Signature` with an input. All else of a signature is checked when it is made.

    Examples:
        >>> x = af.placeholder(af.float32, [None], name="x")
        >>> af.saved_model.is_valid_signature(af.saved_model.predict_signature_def({"x": x}, {"y": x + 1.0}))
        True
    """
    return isinstance(signature_def, Signature) and bool(signature_def.inputs)


def predict_signature_def(inputs: Mapping[str, Tensor], outputs: Mapping[str, Tensor]) -> Signature:
    """The `Signature` of a function from tensors to tensors.

    Examples:
        >>> x = af.placeholder(af.float32, [None], name="x")
        >>> af.saved_model.predict_signature_def({"x": x}, {"y": x + 1.0}).method
        'predict'
    """
    return Signature(inputs, outputs)


def classification_signature_def(examples: Tensor, classes: Tensor | None, scores: Tensor | None) -> Signature:
    """The `Signature` of a function from examples to classes, to scores or to both.

    Examples:
        >>> x = af.placeholder(af.float32, [None, 3], name="x")
        >>> af.saved_model.classification_signature_def(x, None, af.nn.softmax(x)).describe()
        '(inputs: float32[?, 3]) -> (scores: float32[?, 3])'
    """
    found = {names.CLASSIFY_OUTPUT_CLASSES: classes, names.CLASSIFY_OUTPUT_SCORES: scores}
    outputs = {name: tensor for name, tensor in found.items() if tensor is not None}
    return Signature({names.CLASSIFY_INPUTS: examples}, outputs, "classify")


def regression_signature_def(examples: Tensor, predictions: Tensor) -> Signature:
    """The `Signature` of a function from examples to numbers.

    Examples:
        >>> x = af.placeholder(af.float32, [None], name="x")
        >>> af.saved_model.regression_signature_def(x, 2.0 * x).describe()
        '(inputs: float32[?]) -> (outputs: float32[?])'
    """
    return Signature({names.REGRESS_INPUTS: examples}, {names.REGRESS_OUTPUTS: predictions}, "regress")


Face(__name__, {
    __name__: "build_signature_def classification_signature_def predict_signature_def regression_signature_def"
})  # fmt: skip
