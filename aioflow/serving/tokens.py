"""The tokens of a server, and which client a request is of."""

from collections.abc import Collection, Sequence
from typing import Final

from aioflow.graph.operation import items_of
from aioflow.net.transport.credentials import Token
from aioflow.serving.failures import RequestRefusedError
from aioflow.serving.request import Request

_OPEN_TO_ALL: Final = frozenset({
    "/v2/health/live", "/v2/health/ready",
    "/inference.GRPCInferenceService/ServerLive", "/inference.GRPCInferenceService/ServerReady",
})  # fmt: skip
"""The paths that need no token: probes have none."""


class Tokens:
    """The tokens of which each request must show one; none are asked for if there are none.

    A client is an address. Where there are several tokens, it is the token that it shows, from any address.
    """

    def __init__(self, tokens: Sequence[Token] = ()) -> None:
        self._tokens: Final = tokens

    @staticmethod
    def of(token: str | Collection[str] | None) -> "Tokens":
        """Return a token, several, or none. ValueError for an empty list, which might be meant to admit nobody."""
        if token is None:
            return Tokens()
        secrets = [token] if isinstance(token, str) else items_of("token", token)
        if not secrets:
            raise ValueError("token is an empty list: give at least one token, or None to ask for none")
        return Tokens([Token(secret) for secret in secrets])

    def client_of(self, request: Request) -> str:
        """Return the client of a request. RequestRefusedError for a client without a token."""
        if not self._tokens or request.path in _OPEN_TO_ALL:
            return request.client
        scheme, _, secret = request.headers.get("authorization", "").partition(" ")
        shown = f"{scheme.capitalize()} {secret.strip(' ')}"  # RFC 9110: "bearer" is the same, behind any spaces
        matches = [token.matches(shown) for token in self._tokens]  # all, so that the time tells nothing
        if not any(matches):
            text = "the request must show the server's token, as Authorization: Bearer TOKEN"
            raise RequestRefusedError(401, text, {"www-authenticate": "Bearer"})
        return request.client if len(matches) == 1 else f"token {matches.index(True)}"
