"""Decides who may look at a page: browsers of this machine, or browsers that show the credential.

A browser cannot send a token with the address of a page, and a token in an address would stand in logs. So it signs in
by a form, and has a cookie from then on, which is derived from the token and readable by no script. Programs send the
token in the header `Authorization`, as tasks do.

Without a token the page is on loopback, where a page of another site may still reach it through the user's browser. So
the request must name an address of this machine as its host, and a websocket must come from this page itself.
"""

import hashlib
import hmac
from collections.abc import Mapping
from typing import Final
from urllib.parse import SplitResult, urlsplit

from aioflow.net.transport.credentials import Token, is_loopback

HEADERS: Final[Mapping[str, str]] = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}
"""The headers of every response."""


class Access:
    """Decides about requests.

    Args:
        token: the token that each request must show; None if requests need none.
        mounted: whether an application of the user decides which hosts are its own.

    Attributes:
        cookie: the value of the cookie of a browser that has signed in.
        cookie_name: the name of its cookie. Pages of one host with other tokens have others.
    """

    def __init__(self, token: Token | None, mounted: bool = False) -> None:
        self._token: Final = token
        self._mounted: Final = mounted
        self.cookie: Final = "" if token is None else token.key("the cookie of the live page")
        self.cookie_name: Final = f"aioflow-page-{hashlib.sha256(self.cookie.encode()).hexdigest()[:12]}"

    def refuses_host(self, host: str) -> bool:
        """Whether the page refuses a request that names this host.

        A page without a token, on a port of its own, answers only under addresses of this machine.
        """
        return self._token is None and not self._mounted and not is_loopback(_split(f"//{host}").hostname or "")

    def refuses_origin(self, origin: str | None, host: str) -> bool:
        """Whether a websocket was opened by a page of another site."""
        return origin is not None and _split(origin).netloc.lower() != host.lower()

    def is_known(self, authorization: str, cookie: str) -> bool:
        """Whether the request shows the credential."""
        if self._token is None:
            return True
        shown = cookie.encode(errors="surrogateescape")
        return self._token.matches(authorization) or hmac.compare_digest(self.cookie.encode(), shown)

    def signs_in(self, secret: str) -> bool:
        """Whether the text is the token."""
        return self._token is not None and self._token.matches(f"Bearer {secret}")


def _split(address: str) -> SplitResult:
    """The parts of an address, all empty if it is malformed."""
    try:
        return urlsplit(address)
    except ValueError:
        return SplitResult("", "", "", "", "")
