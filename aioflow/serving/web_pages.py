"""Requests of web pages: which pages may ask, and what a browser must hear before it shows them an answer (CORS).

A browser says the page in the header `Origin`. Before a request with JSON or a token it asks by OPTIONS, without the
token, whether it may be sent.
"""

from collections.abc import Collection
from typing import Final

from aioflow.serving.failures import RequestRefusedError
from aioflow.serving.request import Request, Response

_ALLOWED: Final = {
    "access-control-allow-methods": "GET, HEAD, POST",
    "access-control-allow-headers": "authorization, content-type, inference-header-content-length, prefer",
    "access-control-max-age": "600",
}
_SHOWN: Final = "inference-header-content-length, retry-after, server-timing"
"""The headers of a response that a page may read."""


class WebPages:
    """The web pages that may send requests, by origin, such as `https://example.org`; None for any.

    Answers to pages are marked for their browsers only if the pages are listed: without a list, that is left to the
    application around the models.
    """

    def __init__(self, origins: Collection[str] | None) -> None:
        self._origins: Final = origins

    def check(self, request: Request) -> None:
        """Raise RequestRefusedError for a page that is not listed."""
        origin = request.headers.get("origin")
        if self._origins is not None and origin is not None and origin not in self._origins:
            raise RequestRefusedError(403, "requests from web pages are refused")

    def asks_first(self, request: Request) -> bool:
        """Whether a browser asks for a listed page whether a request may be sent."""
        return request.method == "OPTIONS" and self._is_listed(request)

    def mark(self, request: Request, response: Response) -> Response:
        """Return the response, such that a browser shows it to a listed page."""
        if not self._is_listed(request):
            return response
        shown = {
            "access-control-allow-origin": request.headers["origin"],
            "access-control-expose-headers": _SHOWN, "vary": "Origin",
        }  # fmt: skip
        return response.with_headers(shown)

    def _is_listed(self, request: Request) -> bool:
        return self._origins is not None and request.headers.get("origin") in self._origins


def permission() -> Response:
    """The answer to a browser that asks first."""
    return Response(204, _ALLOWED)
