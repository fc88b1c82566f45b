"""Requests that are sent and not answered yet, and the two ways in which an answer is awaited."""

import asyncio
import dataclasses
from collections.abc import Callable
from typing import Any

from aioflow.net.wire.schema import Message

Answered = Callable[[Any], None]
"""Called with the answer to a request, or with the error that it raises."""


class Reaction:
    """Takes the place of a future for a request that no coroutine awaits: the answer is handled as it arrives."""

    __slots__ = ("_answered",)

    def __init__(self, answered: Answered) -> None:
        self._answered: Answered | None = answered

    def done(self) -> bool:
        """Whether the answer or an error has come, or none is wanted."""
        return self._answered is None

    def cancel(self) -> None:
        """Handle no answer."""
        self._answered = None

    def set_result(self, answer: Any) -> None:
        """Handle the answer, or the error."""
        answered, self._answered = self._answered, None
        if answered is not None:
            answered(answer)

    set_exception = set_result


@dataclasses.dataclass(slots=True)
class Asked:
    """A request that is not answered yet.

    Attributes:
        kind: its class.
        future: takes the answer.
    """

    kind: type[Message]
    future: "asyncio.Future[Any] | Reaction"

    @property
    def name(self) -> str:
        """The name of the request."""
        return self.kind.__name__
