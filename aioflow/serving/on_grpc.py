"""Models as a server of gRPC, by the package grpcio alone: the messages need no generated code."""

import asyncio
import functools
from collections.abc import Collection
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from aioflow import errors
from aioflow.serving.limits import Limits
from aioflow.serving.models import Models
from aioflow.serving.open_inference_grpc import MESSAGE, PATHS, ROUTES, SERVICE, STATUS
from aioflow.serving.request import Request, Response
from aioflow.serving.service import Service
from aioflow.serving.tokens import Tokens

if TYPE_CHECKING:
    from grpc.aio import Server, ServicerContext

_BINARY: Final = "-bin"
"""How the names of metadata end whose values are bytes."""


def grpc_server(
    models: Models, limits: Limits | None = None, *, token: str | Collection[str] | None = None
) -> "Server":
    """Return a server of `grpc.aio` that serves models by the Open Inference Protocol.

    It belongs to the running event loop. The caller runs it, and may add other services:

        server = af.serving.grpc_server(models)
        server.add_insecure_port("127.0.0.1:8001")
        await server.start()
        ...
        await server.stop(grace=60)

    A call is cancelled when its client cancels it or leaves, and when its deadline passes. The models stay the
    caller's, who closes them after the server.

    Args:
        models: the models.
        limits: the bounds of requests. gRPC itself refuses larger messages.
        token: what each call must show in its metadata, `authorization: Bearer ...`, except ServerLive and
            ServerReady; None for nothing. Of several, each call must show one, and a quota of `limits` is that of a
            token.

    Raises:
        UnimplementedError: the package grpcio is not installed.

    Examples:
        >>> async with af.serving.Models() as models:
        ...     server = af.serving.grpc_server(models)
        ...     port = server.add_insecure_port("127.0.0.1:0")
        ...     await server.start()
        ...     await server.stop(grace=None)
    """
    return make_server(Service(models, limits, tokens=Tokens.of(token)))


def make_server(service: Service, shared: bool = False) -> "Server":
    """Return a server that a service answers. UnimplementedError as `grpc_server`.

    Args:
        service: the service.
        shared: whether other processes may listen on the same port, and share the connections.
    """
    grpc = package()
    server = grpc.aio.server(
        options=[
            ("grpc.max_receive_message_length", service.limits.body),
            ("grpc.max_send_message_length", -1),
            ("grpc.so_reuseport", int(shared)),
        ]
    )
    calls = {
        path.rpartition("/")[2]: grpc.stream_unary_rpc_method_handler(functools.partial(_answer, service, path))
        for path in PATHS
    }
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(SERVICE, calls)])
    return server


def package() -> Any:
    """Return the package grpc. UnimplementedError that names the extra, if it is not installed."""
    try:
        import grpc
        import grpc.aio
    except ImportError:
        raise errors.UnimplementedError("serving by gRPC needs grpcio: pip install aioflow-engine[grpc]") from None
    return grpc


async def _answer(service: Service, path: str, messages: object, context: "ServicerContext") -> bytes:
    """Answer a call. gRPC cancels it when its client is gone or its deadline has passed."""
    message = await _read(context, service.limits.body_seconds)
    request = Request("POST", path, _headers(context), message, client_address(context.peer()))
    headers, answer = await service.answer(request, _join, ROUTES)
    code, text = int(headers.pop(STATUS)), headers.pop(MESSAGE, "")
    if code != errors.OK:
        await _abort(context, code, text, tuple(headers.items()))
    if headers:
        context.set_trailing_metadata(tuple(headers.items()))
    return answer


def client_address(peer: str) -> str:
    """Return the address of a peer as HTTP has it, `::1` for `ipv6:%5B::1%5D:5000`, so that a client has one quota."""
    host = peer.partition(":")[2].rpartition(":")[0]
    return unquote(host).strip("[]")


async def _read(context: "ServicerContext", seconds: float) -> bytes:
    """Return the only message of a call. It is read as one of a stream, since gRPC waits for others for ever."""
    try:
        async with asyncio.timeout(seconds):
            message: object = await context.read()
    except TimeoutError:
        await _abort(context, errors.DEADLINE_EXCEEDED, f"the message did not arrive within {seconds:g} s")
    if isinstance(message, bytes):
        return message
    await _abort(context, errors.INVALID_ARGUMENT, "the call has no message")
    return b""  # never: the abort has raised


async def _abort(context: "ServicerContext", code: int, text: str, metadata: tuple[tuple[str, str], ...] = ()) -> None:
    """End a call with an error, or as cancelled if gRPC has ended it itself, as for a message that is too long."""
    try:
        await context.abort(_status(code), text, metadata)
    except package().aio.InternalError:
        raise asyncio.CancelledError from None


async def _join(response: Response) -> tuple[dict[str, str], bytes]:
    """Return the headers and the message of a response. gRPC itself sends what a call returns."""
    return dict(response.headers), b"".join(response.body)


def _headers(context: "ServicerContext") -> dict[str, str]:
    return {name: value for name, value in context.invocation_metadata() or () if not name.endswith(_BINARY)}


@functools.cache
def _status(code: int) -> Any:
    """Return gRPC's own object for a code."""
    return next(status for status in package().StatusCode if status.value[0] == code)
