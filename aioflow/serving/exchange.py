"""One request while it is answered: what its handler may use, and what the access log and metrics want to know."""

import contextlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from aioflow import errors
from aioflow.saved_model.manifest import MOST_DIGITS
from aioflow.saved_model.signature import Signature
from aioflow.serving.limits import Limits
from aioflow.serving.models import Models
from aioflow.serving.request import Request, Response
from aioflow.serving.served_version import ServedVersion
from aioflow.tensors.dtypes import Array
from aioflow.tensors.recursion import short_repr


class ModelAddress(NamedTuple):
    """The part of a path that names a model.

    Attributes:
        name: its name.
        version: the number of a version; None for the one that the server chooses.
        label: the label of a version; None likewise.
    """

    name: str
    version: int | None = None
    label: str | None = None


class Exchange:
    """A request, and the state of its answer.

    Attributes:
        request: the request.
        models: the models of the server.
        limits: the bounds of requests.
        ready: whether the server takes requests, and does not end.
        client: the client, to whose quota the request counts.
        served: the version that answers; None until it is found.
        rows: the rows of the inputs.
    """

    __slots__ = ("_charge", "client", "limits", "models", "ready", "request", "rows", "served")

    def __init__(
        self, request: Request, models: Models, limits: Limits, ready: bool,
        charge: Callable[[str, int], None] | None = None,
    ) -> None:  # fmt: skip
        """A request. `charge` is told of the client and its rows, if these have a quota."""
        self.request: Final = request
        self.client = request.client
        self.models: Final = models
        self.limits: Final = limits
        self.ready: Final = ready
        self.served: ServedVersion | None = None
        self.rows: int = 0
        self._charge: Final = charge

    def find(self, address: ModelAddress) -> ServedVersion:
        """Return the version at an address. OpError as `Models.find`."""
        self.served = self.models.find(address.name, address.version, address.label)
        return self.served

    def hold(self, address: ModelAddress) -> contextlib.AbstractContextManager[ServedVersion]:
        """Find the version at an address for an inference, and hold it inside the block.

        ResourceExhaustedError if its queue is full: then the body of the request is not even read.
        """
        served = self.find(address)
        served.check_room()
        return served.held()

    def count(self, inputs: Mapping[str, Array]) -> None:
        """Note the rows of the inputs. RequestRefusedError if the client has had as many as it may."""
        self.rows = _count_rows(inputs)
        if self._charge is not None:
            self._charge(self.client, self.rows)

    def signature(self, name: Any) -> Signature:
        """Return the signature of that name of the version. InvalidArgumentError if there is none."""
        assert self.served is not None
        signatures = self.served.signatures
        found = signatures.get(name) if isinstance(name, str) else None
        if found is None:
            listed = ", ".join(sorted(signatures))
            raise errors.InvalidArgumentError(f"there is no signature {short_repr(name)}; there is {listed}")
        return found


Handler: TypeAlias = Callable[[Exchange], Awaitable[Response]]
Handlers: TypeAlias = Mapping[str, Handler]
"""The handlers of a path, by method."""


class Route(NamedTuple):
    """What answers a request.

    Attributes:
        handler: its handler.
        infers: whether it runs a model, and counts as one of the inferences at a time.
    """

    handler: Handler
    infers: bool


class Routes(NamedTuple):
    """How a transport finds handlers and tells errors.

    Attributes:
        find: returns the route of a method and a path. RequestRefusedError or OpError if there is none.
        fail: returns the response for an error.
    """

    find: Callable[[str, str], Route]
    fail: Callable[[Exception], Response]


def version_number(text: str) -> int:
    """Return the number of a version in a path. NotFoundError if it is none."""
    if not (text.isascii() and text.isdigit() and len(text) <= MOST_DIGITS):
        raise errors.NotFoundError(f"a version is a number, not {text!r}")
    return int(text)


def _count_rows(inputs: Mapping[str, Array]) -> int:
    """Return the size of axis 0 of the first input; 1 if it has no axes."""
    first = next(iter(inputs.values()), None)
    return 1 if first is None or not first.ndim else len(first)
