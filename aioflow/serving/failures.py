"""What a client is told of an error: a status of HTTP and `{"error": "..."}`, or a code of gRPC and a text.

An error by which a request is to blame tells its text. Any other is told in general words, since its text may show
files and lines of the server; the log has it whole.
"""

import logging
from collections.abc import Mapping
from typing import Final, NamedTuple

from aioflow import errors
from aioflow.serving.request import Response, json_response

_log: Final = logging.getLogger("aioflow.serving")

_STATUS: Final[Mapping[type[errors.OpError], int]] = {
    errors.InvalidArgumentError: 400,
    errors.OutOfRangeError: 400,
    errors.UnauthenticatedError: 401,
    errors.PermissionDeniedError: 403,
    errors.NotFoundError: 404,
    errors.AlreadyExistsError: 409,
    errors.UnimplementedError: 501,
    errors.ResourceExhaustedError: 503,
    errors.UnavailableError: 503,
    errors.AbortedError: 503,
    errors.CancelledError: 503,
    errors.DeadlineExceededError: 504,
}
"""All other errors are faults of the server, 500."""

_CODE: Final[Mapping[int, int]] = {
    401: errors.UNAUTHENTICATED,
    403: errors.PERMISSION_DENIED,
    413: errors.RESOURCE_EXHAUSTED,
    429: errors.RESOURCE_EXHAUSTED,
}
"""The codes of gRPC for the statuses with which a request is refused; for all others INVALID_ARGUMENT."""

RETRY_AFTER: Final = "1"
"""Seconds after which a client that was refused for want of room may try again."""


class RequestRefusedError(Exception):
    """A request that HTTP itself refuses, with its status.

    Attributes:
        status: the status of HTTP.
        text: the reason, and what to send instead.
        headers: further headers of the response.
    """

    def __init__(self, status: int, text: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(text)
        self.status: Final = status
        self.text: Final = text
        self.headers: Final = headers or {}


class Failure(NamedTuple):
    """What a client is told of an error.

    Attributes:
        status: the status of HTTP.
        code: the code of gRPC.
        text: the reason.
        headers: further headers of the response.
    """

    status: int
    code: int
    text: str
    headers: Mapping[str, str] = {}


def describe_failure(error: Exception) -> Failure:
    """Return what a client is told of an error, and log an error of the server."""
    if isinstance(error, RequestRefusedError):
        return Failure(error.status, _CODE.get(error.status, errors.INVALID_ARGUMENT), error.text, error.headers)
    if isinstance(error, TimeoutError) and not isinstance(error, errors.OpError):
        return Failure(504, errors.DEADLINE_EXCEEDED, "the request was not answered within its timeout")
    status = _STATUS.get(type(error), 500) if isinstance(error, errors.OpError) else 500
    if status == 500 or not isinstance(error, errors.OpError):
        _log.error("a request failed: %s", error, exc_info=error)
        return Failure(500, errors.INTERNAL, "the server failed to compute the answer; its log has the reason")
    code = errors.UNAVAILABLE if isinstance(error, errors.CancelledError) else error.error_code
    return Failure(status, code, error.message, {"retry-after": RETRY_AFTER} if status == 503 else {})


def http_error(error: Exception) -> tuple[int, str]:
    """Return the status of HTTP and the text by which a client is told of an error of `infer`.

        status, text = af.serving.http_error(error)

    400 is for wrong inputs, 404 for unknown models, 503 for a full queue, 504 for a time that is over. An error by
    which no request is to blame is 500 with a general text, and is written to the log `aioflow.serving`.

    Examples:
        >>> af.serving.http_error(af.errors.NotFoundError("there is no model"))
        (404, 'there is no model')
    """
    failure = describe_failure(error)
    return failure.status, failure.text


def error_response(error: Exception) -> Response:
    """Return the response of HTTP for an error."""
    failure = describe_failure(error)
    return json_response({"error": failure.text}, failure.status, failure.headers)
