"""What is recorded of a request, for the access log and metrics."""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias


class Record(NamedTuple):
    """One request that has ended.

    Attributes:
        method: its method.
        path: its path.
        status: the status of the response; 499 if the client left before.
        seconds: from the headers until the response was sent.
        model: the name of the model that answered; None if there was none.
        version: its version.
        rows: the rows of the inputs.
        size: the bytes of the response.
    """

    method: str
    path: str
    status: int
    seconds: float
    model: str | None
    version: int | None
    rows: int
    size: int


Observer: TypeAlias = Callable[[Record], None]
