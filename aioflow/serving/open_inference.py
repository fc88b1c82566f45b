"""The Open Inference Protocol v2 over REST, with its extension for binary tensors: what lies below `/v2`.

A request names inputs by a list of tensors. The parameter `signature_name` chooses another signature than
`serving_default`, `priority` the level of priority, `timeout` the most microseconds until the answer.
"""

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from aioflow import errors
from aioflow.graph.operation import Tensor
from aioflow.saved_model.signature import SERVING_DEFAULT
from aioflow.serving import generation
from aioflow.serving.body import read_body
from aioflow.serving.exchange import Exchange, Handlers, ModelAddress, count_rows, version_number
from aioflow.serving.inference_tensors import (
    datatype_of,
    read_name,
    read_parameters,
    read_tensors,
    write_tensor,
)
from aioflow.serving.json_body import parse_object
from aioflow.serving.request import BINARY, JSON, Response, json_response, to_json
from aioflow.tensors.dtypes import Array
from aioflow.tensors.recursion import short_repr
from aioflow.version import __version__

JSON_LENGTH: Final = "inference-header-content-length"
"""The header with the length of the JSON before binary tensors."""


def find_handlers(path: Sequence[str]) -> Handlers | None:
    """Return the handlers of a path below `/v2`; None if there is no such path. NotFoundError for a bad version."""
    match path:
        case []:
            return {"GET": _server_metadata}
        case ["health", "live"]:
            return {"GET": _live}
        case ["health", "ready"]:
            return {"GET": _ready}
        case ["models", name, "versions", version, *rest]:
            return _of_model(ModelAddress(name, version_number(version)), rest)
        case ["models", name, *rest]:
            return _of_model(ModelAddress(name), rest)
    return None


def _of_model(address: ModelAddress, rest: Sequence[str]) -> Handlers | None:
    match rest:
        case []:
            return {"GET": partial(_metadata, address)}
        case ["ready"]:
            return {"GET": partial(_model_ready, address)}
        case ["infer"]:
            return {"POST": partial(_infer, address)}
        case ["generate"]:
            return {"POST": partial(generation.generate, address)}
        case ["generate_stream"]:
            return {"POST": partial(generation.generate_stream, address)}
    return None


# Health and metadata


async def _server_metadata(exchange: Exchange) -> Response:
    return json_response({"name": "aioflow", "version": __version__, "extensions": ["binary_tensor_data", "generate"]})


async def _live(exchange: Exchange) -> Response:
    return json_response({"live": True})


async def _ready(exchange: Exchange) -> Response:
    ready = exchange.ready and exchange.models.ready
    return json_response({"ready": ready}, 200 if ready else 503)


async def _model_ready(address: ModelAddress, exchange: Exchange) -> Response:
    ready = exchange.ready and exchange.find(address).state == "available"
    return json_response({"name": address.name, "ready": ready}, 200 if ready else 503)


async def _metadata(address: ModelAddress, exchange: Exchange) -> Response:
    """The tensors of the default signature, or of the only one."""
    served = exchange.find(address)
    signature = served.signatures.get(SERVING_DEFAULT) or next(iter(served.signatures.values()))
    versions = map(str, exchange.models.versions(served.name))
    return json_response({
        "name": served.name, "versions": [*versions], "platform": "aioflow",
        "inputs": _describe(signature.inputs), "outputs": _describe(signature.outputs),
    })  # fmt: skip


def _describe(tensors: Mapping[str, Tensor]) -> list[dict[str, Any]]:
    return [
        {"name": name, "datatype": datatype_of(tensor.dtype), "shape": _open_sizes(tensor)}
        for name, tensor in tensors.items()
    ]


def _open_sizes(tensor: Tensor) -> list[int]:
    """Return the sizes of a tensor, -1 for each that is open; [-1] if even the rank is."""
    sizes = tensor.shape.sizes
    return [-1] if sizes is None else [-1 if size is None else size for size in sizes]


# Inference


async def _infer(address: ModelAddress, exchange: Exchange) -> Response:
    with exchange.find(address).held() as served:
        json_size = _json_size(exchange)
        body = await read_body(exchange.request, exchange.limits, json_size)
        if json_size is not None and json_size > len(body):
            raise errors.InvalidArgumentError(f"the JSON should have {json_size} bytes, and the body has {len(body)}")
        header = parse_object(body[:json_size], exchange.limits)
        inputs = read_tensors(header.get("inputs"), body[len(body) if json_size is None else json_size :])
        exchange.rows = count_rows(inputs)
        options = _Options.read(header)
        async with options.limit():
            outputs = await served.infer(inputs, options.signature, options.names, options.priority)
        return _respond(outputs, header, options, f"{served.version}", served.name)


def _json_size(exchange: Exchange) -> int | None:
    """Return the length of the JSON before binary tensors; None if the whole body is JSON."""
    text = exchange.request.headers.get(JSON_LENGTH)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise errors.InvalidArgumentError(f"{JSON_LENGTH} must be a number of bytes, not {short_repr(text)}")
    return int(text)


class _Options(NamedTuple):
    """What a request asks for besides its inputs.

    Attributes:
        signature: the signature to run.
        names: the outputs that it wants; None for all.
        binary: whether each output is sent as bytes, by name.
        binary_default: the same for those that say nothing.
        priority: the level of priority.
        timeout: the seconds until the answer; None for no limit.
    """

    signature: str
    names: Sequence[str] | None
    binary: Mapping[str, bool]
    binary_default: bool
    priority: int
    timeout: float | None

    @classmethod
    def read(cls, header: Mapping[str, Any]) -> "_Options":
        """Return the options in the JSON of a request. InvalidArgumentError names a wrong one."""
        parameters = read_parameters(header)
        names, binary = _read_outputs(header.get("outputs"))
        timeout = _option(parameters, "timeout", 0)
        return cls(
            _option(parameters, "signature_name", SERVING_DEFAULT), names, binary,
            _option(parameters, "binary_data_output", False), _option(parameters, "priority", 0),
            timeout / 1e6 if timeout > 0 else None,
        )  # fmt: skip

    def limit(self) -> contextlib.AbstractAsyncContextManager[object]:
        """Inside the block, TimeoutError when the time is over."""
        return contextlib.nullcontext() if self.timeout is None else asyncio.timeout(self.timeout)


def _option(parameters: Mapping[str, Any], name: str, default: Any) -> Any:
    """Return a parameter of the type of its default. InvalidArgumentError if it has another type."""
    value = parameters.get(name, default)
    if type(value) is not type(default):
        kind = type(default).__name__
        raise errors.InvalidArgumentError(f"parameter {name!r} must be of type {kind}, not {short_repr(value)}")
    if type(value) is int and not -(2**63) <= value < 2**63:
        raise errors.InvalidArgumentError(f"parameter {name!r} must fit into 64 bits, not {short_repr(value)}")
    return value


def _read_outputs(given: Any) -> tuple[list[str] | None, dict[str, bool]]:
    """Return the names of the wanted outputs, None for all, and whether each is sent as bytes."""
    if given is None or given == []:
        return None, {}
    if not isinstance(given, list):
        raise errors.InvalidArgumentError('"outputs" must be a list')
    names: dict[str, None] = {}
    binary = {}
    for item in given:
        name = read_name(item, "outputs")
        if name in names:
            raise errors.InvalidArgumentError(f"output {name!r} is asked for twice")
        names[name] = None
        parameters = read_parameters(item)
        if parameters.get("classification"):
            raise errors.UnimplementedError('the extension "classification" is not served')
        if "binary_data" in parameters:
            binary[name] = _option(parameters, "binary_data", False)
    return [*names], binary


def _respond(
    outputs: Mapping[str, Array], header: Mapping[str, Any], options: _Options, version: str, name: str
) -> Response:
    head: dict[str, Any] = {"model_name": name, "model_version": version}
    if isinstance(header.get("id"), str):
        head["id"] = header["id"]
    items, parts = [], []
    for output, array in outputs.items():
        item, after = write_tensor(output, array, options.binary.get(output, options.binary_default))
        items.append(item)
        parts += after
    text = to_json(head | {"outputs": items})
    if all("data" in item for item in items):
        return Response(200, {"content-type": JSON}, [text])
    return Response(200, {"content-type": BINARY, JSON_LENGTH: str(len(text))}, [text, *parts])
