"""The extension of the Open Inference Protocol for text that is generated: inputs as plain keys of a JSON object.

    POST .../generate          {"tokens": [[1, 2]], "parameters": {...}} -> {"model_name": ..., "tokens": [[1, 2, 7]]}
    POST .../generate_stream   the same -> such an object for each iteration of the model's loop, as an event

A client that leaves a stream stops the loop; a client that reads slowly holds back its own loop alone.
"""

import contextlib
from collections.abc import AsyncGenerator, Mapping
from typing import Any, Final

from aioflow.serving.body import read_body
from aioflow.serving.exchange import Exchange, ModelAddress
from aioflow.serving.failures import error_response
from aioflow.serving.inference_tensors import read_parameters
from aioflow.serving.json_body import parse_object
from aioflow.serving.large_json import beside_loop, json_size, write_json, write_response
from aioflow.serving.request import EVENTS, Response
from aioflow.serving.request_options import RequestOptions, each_in_time, in_time
from aioflow.serving.served_version import ServedVersion
from aioflow.serving.tensorflow_values import read_columns, to_list
from aioflow.tensors.dtypes import Array

_NOT_INPUTS: Final = ("id", "parameters")


async def generate(address: ModelAddress, exchange: Exchange) -> Response:
    """Answer with the outputs of one run."""
    with exchange.hold(address) as served:
        options, inputs = await _read(exchange)
        answer = served.infer(inputs, options.signature, None, options.priority)
        outputs = await (answer if options.timeout is None else in_time(answer, options.timeout))
        return await write_response(json_size(outputs.values()), _describe, served, outputs)


async def generate_stream(address: ModelAddress, exchange: Exchange) -> Response:
    """Answer with the outputs of each iteration. An error before the first one is a status, a later one an event."""
    messages = _messages(address, exchange)
    first = await anext(messages)
    return Response(200, {"content-type": EVENTS, "cache-control": "no-store"}, [first], messages)


async def _messages(address: ModelAddress, exchange: Exchange) -> AsyncGenerator[bytes, None]:
    begun = False
    with exchange.hold(address) as served:
        options, inputs = await _read(exchange)
        stream = served.stream(inputs, options.signature, None, options.priority)
        try:
            async with contextlib.aclosing(stream) as iterations:
                async for outputs in each_in_time(iterations, options.timeout):
                    yield await write_json(json_size(outputs.values()), _describe, served, outputs)
                    begun = True
        except Exception as error:
            if not begun:
                raise
            yield b"".join(error_response(error).body)


async def _read(exchange: Exchange) -> tuple[RequestOptions, dict[str, Array]]:
    """Return how a request is run, and its inputs."""
    text = await read_body(exchange.request, exchange.limits)
    body = await beside_loop(len(text), parse_object, text, exchange.limits)
    options = RequestOptions.read(read_parameters(body))
    columns = {key: value for key, value in body.items() if key not in _NOT_INPUTS}
    inputs = await beside_loop(len(text), read_columns, columns, exchange.signature(options.signature).inputs)
    exchange.count(inputs)
    return options, inputs


def _describe(served: ServedVersion, outputs: Mapping[str, Array]) -> dict[str, Any]:
    values = {name: to_list(name, array) for name, array in outputs.items()}
    return {"model_name": served.name, "model_version": str(served.version), **values}
