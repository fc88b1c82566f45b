"""The live page on a port of its own, or as an application to mount."""

import os
import ssl
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from aioflow import errors
from aioflow.dashboard.access import Access
from aioflow.dashboard.monitor import Monitor
from aioflow.dashboard.watched import monitor_of
from aioflow.net.transport.addresses import join_address
from aioflow.net.transport.credentials import Token, check_binding, server_tls

if TYPE_CHECKING:
    from aiohttp import web


def aiohttp_app(watched: Any, *, token: str | None = None) -> "web.Application":
    """Return an application with the live page of a session, server or models: `app.add_subapp("/live", ...)`.

    The page only reads. Without a token everybody who reaches the application may read it, graphs and numbers included.

    Args:
        watched: an `af.Session`, an `af.train.Server` that has begun, `af.serving.Models`, or what `replay` returns.
            It stays the caller's.
        token: the secret that browsers sign in with, and that programs send as `Authorization: Bearer ...`; None if
            the page needs none.

    Examples:
        >>> from aiohttp import web
        >>> app = web.Application()
        >>> _ = app.add_subapp("/watch/", af.dashboard.aiohttp_app(session))
    """
    from aioflow.dashboard.app import page_app

    app: web.Application = page_app(monitor_of(watched), Access(None if token is None else Token(token), mounted=True))
    return app


def serve(
    watched: Any, *, host: str = "127.0.0.1", port: int = 0, token: str | None = None,
    tls: str | os.PathLike[str] | None = None,
) -> "Page":  # fmt: skip
    """Show a session, server or models in browsers while the block runs.

        async with af.dashboard.serve(session) as page:
            print(page.url)

    It costs nothing while no page is open. It listens on an address that other machines reach only with a token.

    Args:
        watched: an `af.Session`, an `af.train.Server` that has begun, `af.serving.Models`, or what `replay` returns.
            It stays the caller's.
        host: the address to listen on.
        port: the port; 0 for any.
        token: the secret that browsers sign in with; None if the page needs none.
        tls: a directory of certificates as `aioflow ca init DIR` makes it; None for none.

    Raises:
        FailedPreconditionError: when the block begins: other machines reach the address, and there is no token.
        UnavailableError: likewise: the address cannot be bound.

    Examples:
        >>> async with af.dashboard.serve(session) as page:
        ...     print(page.url.startswith("http://127.0.0.1:"))
        True
    """
    context = None if tls is None else server_tls(tls, mutual=False)
    return Page(monitor_of(watched), host, port, None if token is None else Token(token), context)


class Page:
    """A live page on a port.

    Attributes:
        url: where it is, such as `http://127.0.0.1:8080/`; known inside the block.
        monitor: looks at the watched program.

    Examples:
        >>> async with af.dashboard.serve(session) as page:
        ...     print(type(page).__name__)
        Page
    """

    def __init__(self, monitor: Monitor, host: str, port: int, token: Token | None, tls: ssl.SSLContext | None) -> None:
        self.url: str = ""
        self.monitor: Final = monitor
        self._host: Final = host
        self._port: Final = port
        self._token: Final = token
        self._tls: Final = tls
        self._runner: Any = None

    async def __aenter__(self) -> Self:
        from aiohttp import web

        from aioflow.dashboard.app import page_app

        check_binding(self._host, self._token, self._tls)
        app = page_app(self.monitor, Access(self._token))
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
        await self._runner.setup()
        site = web.TCPSite(self._runner, self._host, self._port, ssl_context=self._tls)
        try:
            await site.start()
        except OSError as error:
            await self._runner.cleanup()
            where = join_address(self._host, self._port)
            raise errors.UnavailableError(f"{where} cannot be bound: {error.strerror or error}") from None
        host, port = self._runner.addresses[0][:2]
        self.url = f"{'http' if self._tls is None else 'https'}://{join_address(host, port)}/"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._runner.cleanup()

    def __repr__(self) -> str:
        return f"<live page {self.url or 'that is not open yet'}>"
