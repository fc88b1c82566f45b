"""The requests of late, so that one which comes again is not done again.

A request is known by who asked, in which incarnation, and by its number. Whoever asks again under the same number, as
after a connection that was lost, gets the answer that was given, as long as it is remembered; it is short, so one that
carries values is not. If it was begun and never answered, or the answer is not remembered, nobody can know what became
of it: that is an AbortedError.
"""

from collections import OrderedDict
from typing import Final

from aioflow import errors
from aioflow.net.wire.control_verbs import Failure
from aioflow.net.wire.failures import failure_of
from aioflow.net.wire.schema import Answer

RequestKey = tuple[int, int]
"""The incarnation of who asks, and the number of the request."""


class Recent:
    """The last so many requests of all who ask."""

    def __init__(self, most: int) -> None:
        self._most: Final = most
        self._seen: Final[OrderedDict[RequestKey, Answer | None]] = OrderedDict()

    def begin(self, key: RequestKey) -> "Answer | Known | None":
        """Begin a request. NEW for the first time; the answer if there is one; None while the request is under way."""
        found = self._seen.get(key, NEW)
        if found is NEW:
            self._seen[key] = None
            if len(self._seen) > self._most:
                self._seen.popitem(last=False)
        return found

    def end(self, key: RequestKey, answer: Answer | None) -> None:
        """Record the answer, or with None, that it is not kept. Only the first answer counts."""
        if self._seen.get(key, NEW) is None:
            self._seen[key] = UNKNOWN if answer is None else answer

    def __len__(self) -> int:
        return len(self._seen)


class Known:
    """Stands for a request that is new."""


NEW: Final = Known()
UNKNOWN: Final[Failure] = failure_of(
    errors.AbortedError("the request came before, and its answer is not known any more; ask under a new number"), ""
)
"""The answer to a request whose outcome is unknown."""
