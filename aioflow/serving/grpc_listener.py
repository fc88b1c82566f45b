"""A service on a port of gRPC: it ends as the one of HTTP does."""

import asyncio
from pathlib import Path
from typing import Any, Final

from aioflow import errors
from aioflow.net.transport.addresses import join_address
from aioflow.net.transport.credentials import check_private
from aioflow.serving.on_grpc import make_server, package
from aioflow.serving.service import Service


class GrpcListener:
    """A service on a port of gRPC.

    Attributes:
        url: where it listens, such as `grpc://127.0.0.1:8501`.

    Args:
        service: the service.
        host: the address, or a name of it.
        port: the port; 0 for any.
        tls: the directory of the certificates; None for no TLS.
        mutual: whether clients must show a certificate, too.
        shared: whether other processes may listen on the same port, and share the connections.

    Raises:
        UnavailableError: the address cannot be bound.
        UnimplementedError: the package grpcio is not installed.
    """

    def __init__(
        self, service: Service, host: str, port: int, *, tls: str | None = None, mutual: bool = True,
        shared: bool = False,
    ) -> None:  # fmt: skip
        self._server: Final = make_server(service, shared)
        address = join_address(host, port)
        try:
            bound = (
                self._server.add_insecure_port(address)
                if tls is None
                else self._server.add_secure_port(address, _credentials(Path(tls), mutual))
            )
        except RuntimeError:
            raise errors.UnavailableError(f"{address} cannot be bound for gRPC: it may be in use already") from None
        self.url: Final = f"{'grpc' if tls is None else 'grpcs'}://{join_address(host, bound)}"

    async def start(self) -> None:
        """Listen."""
        await self._server.start()

    async def serve(self, stopped: asyncio.Event, delay: float = 0.0, limit: float = 60.0) -> None:
        """Serve, once it listens, until the event is set. Then end: running calls finish.

        Args:
            stopped: ends the server.
            delay: the seconds between the event and the end of listening, in which balancers notice.
            limit: the most seconds for calls that run; then they are cancelled.
        """
        await stopped.wait()
        await asyncio.sleep(delay)
        await self._server.stop(limit)

    async def close(self) -> None:
        """Listen no longer, and cancel the calls that run. Closing twice is allowed."""
        await self._server.stop(None)


def _credentials(directory: Path, mutual: bool) -> Any:
    """Return gRPC's credentials by the files of `aioflow ca`. FailedPreconditionError if they cannot be read."""
    key = directory / "node.key"
    try:
        check_private(f"the key {key}", key.stat())
        pair = key.read_bytes(), (directory / "node.pem").read_bytes()
        authority = (directory / "ca.pem").read_bytes() if mutual else None
    except OSError as error:
        text = f"the certificates in {directory} cannot be used: {error.strerror or error}"
        raise errors.FailedPreconditionError(text) from None
    return package().ssl_server_credentials([pair], authority, mutual)
