"""The extension of the Open Inference Protocol for text that is generated: inputs as plain keys of a JSON object.

    POST .../generate          {"tokens": [[1, 2]], "parameters": {...}} -> {"model_name": ..., "tokens": [[1, 2, 7]]}
    POST .../generate_stream   the same -> such an object for each iteration of the model's loop, as an event

A client that leaves a stream stops the loop; a client that reads slowly holds back its own loop alone.
"""

import contextlib
from collections.abc import AsyncGenerator, Mapping
from typing import Any, Final

from aioflow.saved_model.signature import SERVING_DEFAULT
from aioflow.serving.body import read_body
from aioflow.serving.exchange import Exchange, ModelAddress
from aioflow.serving.failures import error_response
from aioflow.serving.inference_tensors import read_parameters
from aioflow.serving.json_body import parse_object
from aioflow.serving.large_json import beside_loop, json_size, write_json, write_response
from aioflow.serving.request import EVENTS, Response
from aioflow.serving.served_version import ServedVersion
from aioflow.serving.tensorflow_values import read_columns, to_list
from aioflow.tensors.dtypes import Array

_NOT_INPUTS: Final = ("id", "parameters")


async def generate(address: ModelAddress, exchange: Exchange) -> Response:
    """Answer with the outputs of one run."""
    with exchange.hold(address) as served:
        signature, inputs = await _read(exchange)
        outputs = await served.infer(inputs, signature)
        return await write_response(json_size(outputs.values()), _describe, served, outputs)


async def generate_stream(address: ModelAddress, exchange: Exchange) -> Response:
    """Answer with the outputs of each iteration. An error before the first one is a status, a later one an event."""
    messages = _messages(address, exchange)
    first = await anext(messages)
    return Response(200, {"content-type": EVENTS, "cache-control": "no-store"}, [first], messages)


async def _messages(address: ModelAddress, exchange: Exchange) -> AsyncGenerator[bytes, None]:
    begun = False
    with exchange.hold(address) as served:
        signature, inputs = await _read(exchange)
        try:
            async with contextlib.aclosing(served.stream(inputs, signature)) as iterations:
                async for outputs in iterations:
                    yield await write_json(json_size(outputs.values()), _describe, served, outputs)
                    begun = True
        except Exception as error:
            if not begun:
                raise
            yield b"".join(error_response(error).body)


async def _read(exchange: Exchange) -> tuple[str, dict[str, Array]]:
    """Return the signature that a request names, and its inputs."""
    text = await read_body(exchange.request, exchange.limits)
    body = await beside_loop(len(text), parse_object, text, exchange.limits)
    name = read_parameters(body).get("signature_name", SERVING_DEFAULT)
    columns = {key: value for key, value in body.items() if key not in _NOT_INPUTS}
    inputs = await beside_loop(len(text), read_columns, columns, exchange.signature(name).inputs)
    exchange.count(inputs)
    return name, inputs


def _describe(served: ServedVersion, outputs: Mapping[str, Array]) -> dict[str, Any]:
    values = {name: to_list(name, array) for name, array in outputs.items()}
    return {"model_name": served.name, "model_version": str(served.version), **values}
