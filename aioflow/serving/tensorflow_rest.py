"""The REST interface of TensorFlow Serving: what lies below `/v1`."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final, get_args

import numpy as np

from aioflow import errors
from aioflow.graph.operation import Tensor
from aioflow.saved_model.signature import SERVING_DEFAULT, Method, Signature
from aioflow.serving.body import read_body
from aioflow.serving.exchange import Exchange, Handlers, ModelAddress, version_number
from aioflow.serving.json_body import parse_object
from aioflow.serving.large_json import beside_loop, json_size, write_response
from aioflow.serving.request import Response, json_response
from aioflow.serving.status import State, VersionStatus
from aioflow.serving.tensorflow_values import (
    read_columns,
    read_examples,
    read_rows,
    to_list,
    write_columns,
    write_rows,
)
from aioflow.tensors.dtypes import Array, DType

_STATES: Final[Mapping[State, str]] = {
    "loading": "LOADING", "available": "AVAILABLE", "ending": "UNLOADING", "ended": "END", "failed": "END",
}  # fmt: skip
_METHODS: Final[Mapping[str, Method]] = {method: method for method in get_args(Method)}
_DTYPES: Final = {"float16": "DT_HALF", "float32": "DT_FLOAT", "float64": "DT_DOUBLE"}


def find_handlers(path: Sequence[str]) -> Handlers | None:
    """Return the handlers of a path below `/v1`; None if there is no such path. NotFoundError for a bad version."""
    last, colon, verb = path[-1].rpartition(":") if path else ("", "", "")
    if colon and verb in _METHODS:
        address, rest = _address([*path[:-1], last])
        return {"POST": partial(_run, address, _METHODS[verb])} if address is not None and not rest else None
    address, rest = _address(path)
    if address is None or rest not in ([], ["metadata"]):
        return None
    return {"GET": partial(_metadata if rest else _status, address)}


def _address(path: Sequence[str]) -> tuple[ModelAddress | None, Sequence[str]]:
    """Return the model that a path names, and the rest of the path."""
    match path:
        case ["models", name, "versions", version, *rest]:
            return ModelAddress(name, version_number(version)), rest
        case ["models", name, "labels", label, *rest]:
            return ModelAddress(name, label=label), rest
        case ["models", name, *rest]:
            return ModelAddress(name), rest
    return None, path


# Status and metadata


async def _status(address: ModelAddress, exchange: Exchange) -> Response:
    statuses = exchange.models.status(address.name)
    if address != ModelAddress(address.name):
        wanted = exchange.find(address).version
        statuses = [status for status in statuses if status.version == wanted]
    return json_response({"model_version_status": [*map(_describe_status, statuses)]})


def _describe_status(status: VersionStatus) -> dict[str, Any]:
    error = status.error
    return {
        "version": str(status.version),
        "state": _STATES[status.state],
        "status": {
            "error_code": "OK" if error is None else error.code.upper(),
            "error_message": "" if error is None else error.message,
        },
    }


async def _metadata(address: ModelAddress, exchange: Exchange) -> Response:
    served = exchange.find(address)
    signatures = {name: _describe_signature(signature) for name, signature in served.signatures.items()}
    return json_response(
        {
            "model_spec": {"name": served.name, "signature_name": "", "version": str(served.version)},
            "metadata": {"signature_def": {"signature_def": signatures}},
        }
    )


def _describe_signature(signature: Signature) -> dict[str, Any]:
    return {
        "inputs": {name: _describe_tensor(tensor) for name, tensor in signature.inputs.items()},
        "outputs": {name: _describe_tensor(tensor) for name, tensor in signature.outputs.items()},
        "method_name": f"tensorflow/serving/{signature.method}",
    }


def _describe_tensor(tensor: Tensor) -> dict[str, Any]:
    sizes = tensor.shape.sizes
    axes = [{"size": str(-1 if size is None else size), "name": ""} for size in sizes or ()]
    shape = {"dim": axes, "unknown_rank": sizes is None}
    return {"dtype": _dtype_name(tensor.dtype), "tensor_shape": shape, "name": tensor.name}


def _dtype_name(dtype: DType) -> str:
    return _DTYPES.get(dtype.name, f"DT_{dtype.name.upper()}")


# Predict, classify, regress


async def _run(address: ModelAddress, method: Method, exchange: Exchange) -> Response:
    with exchange.hold(address) as served:
        text = await read_body(exchange.request, exchange.limits)
        body = await beside_loop(len(text), parse_object, text, exchange.limits)
        name = body.get("signature_name", SERVING_DEFAULT)
        signature = exchange.signature(name)
        _check_method(signature, name, method)
        by_rows, inputs = await beside_loop(len(text), _read_inputs, body, signature, method)
        exchange.count(inputs)
        outputs = await served.infer(inputs, name)
    return await write_response(json_size(outputs.values()), _answer, method, by_rows, outputs)


def _answer(method: Method, by_rows: bool, outputs: Mapping[str, Array]) -> dict[str, Any]:
    if method == "predict":
        return {"predictions": write_rows(outputs)} if by_rows else {"outputs": write_columns(outputs)}
    return {"result": _scores(outputs) if method == "classify" else _numbers(outputs)}


def _check_method(signature: Signature, name: str, method: Method) -> None:
    """Raise InvalidArgumentError if the signature is for something else."""
    if method not in ("predict", signature.method):
        raise errors.InvalidArgumentError(f"the signature {name!r} is for :{signature.method}, not for :{method}")


def _read_inputs(body: Mapping[str, Any], signature: Signature, method: Method) -> tuple[bool, dict[str, Array]]:
    """Return whether the inputs are given by rows, and their arrays."""
    if method != "predict":
        return True, read_examples(body.get("examples"), body.get("context", {}), signature.inputs)
    if ("instances" in body) is ("inputs" in body):
        raise errors.InvalidArgumentError('the body must have either "instances" or "inputs"')
    if "instances" in body:
        return True, read_rows(body["instances"], signature.inputs)
    return False, read_columns(body["inputs"], signature.inputs)


def _scores(outputs: Mapping[str, Array]) -> list[Any]:
    """Return pairs of class and score for each row; an output that is missing leaves its halves empty.

    InvalidArgumentError if a row has not as many classes as scores.
    """
    given = next(iter(outputs.values()))
    if given.ndim != 2 or any(array.shape != given.shape for array in outputs.values()):
        shapes = ", ".join(f"{name} {list(array.shape)}" for name, array in outputs.items())
        text = f"a signature to classify has a list of classes, and one of as many scores, a row; its outputs: {shapes}"
        raise errors.InvalidArgumentError(text)
    classes = outputs.get("classes", np.full(given.shape, b"", object))
    scores = outputs.get("scores", np.zeros(given.shape, np.float32))
    return [
        [list(pair) for pair in zip(*row, strict=True)]
        for row in zip(to_list("classes", classes), to_list("scores", scores), strict=True)
    ]


def _numbers(outputs: Mapping[str, Array]) -> list[Any]:
    """Return one number for each row. InvalidArgumentError if a row has several."""
    array = outputs["outputs"]
    if not array.ndim or array.size != len(array):
        text = f"a signature to regress has a number a row, and its output has shape {list(array.shape)}"
        raise errors.InvalidArgumentError(text)
    numbers: list[Any] = to_list("outputs", array.reshape(-1))
    return numbers
