"""How many inferences run at a time, in all and for each client, and how many a client may begin a second."""

import itertools
import math
import time
from typing import Final

from aioflow import errors
from aioflow.serving.failures import RequestRefusedError
from aioflow.serving.limits import Limits


class Places:
    """The places of inferences that run.

    Attributes:
        taken: the inferences that run.
    """

    def __init__(self, limits: Limits) -> None:
        self.taken = 0
        self._limits: Final = limits
        has_quota = math.isfinite(limits.client_requests) or math.isfinite(limits.client_rate)
        self._clients: Final = _Clients(limits) if has_quota else None

    def take(self, client: str) -> None:
        """Let one more inference of a client run.

        Raises:
            RequestRefusedError: the client has as many as it may (429).
            ResourceExhaustedError: the server has as many as it may (503).
        """
        if self.taken >= self._limits.requests:
            text = f"{self.taken} requests run already, the most that the server takes at a time; try again"
            raise errors.ResourceExhaustedError(text)
        if self._clients is not None:
            self._clients.take(client)
        self.taken += 1

    def leave(self, client: str) -> None:
        """End an inference of a client."""
        self.taken -= 1
        if self._clients is not None:
            self._clients.leave(client)


class _Account:
    """What a client has: inferences that run, and those that it may still begin now."""

    __slots__ = ("left", "running", "since")

    def __init__(self, left: float, since: float) -> None:
        self.running = 0
        self.left = left
        self.since = since


class _Clients:
    """The accounts of the clients. The inferences that a client may begin grow with time, up to those of a second."""

    def __init__(self, limits: Limits) -> None:
        self._most: Final = limits.client_requests
        self._rate: Final = limits.client_rate
        self._burst: Final = max(1.0, self._rate)
        self._full_after: Final = self._burst / self._rate if math.isfinite(self._rate) else 0.0
        """Seconds after which the account of a client that begins nothing is as a new one."""
        self._running: Final[dict[str, _Account]] = {}
        self._resting: Final[dict[str, _Account]] = {}
        """The accounts of clients of which nothing runs; the one that has rested longest is first."""

    def take(self, client: str) -> None:
        now = time.monotonic()
        self._forget(now)
        account = self._running.get(client) or self._resting.pop(client, None) or _Account(self._burst, now)
        if math.isfinite(self._rate):
            account.left = min(self._burst, account.left + self._rate * (now - account.since))
        account.since = now
        if account.running >= self._most:
            raise _refusal(f"{account.running} requests of this client run already, the most that it may have", 1)
        if account.left < 1:
            if not account.running:
                self._resting[client] = account
            seconds = math.ceil((1 - account.left) / self._rate)
            raise _refusal(f"this client may send {self._rate:g} requests a second", seconds)
        account.left -= 1
        account.running += 1
        self._running[client] = account

    def leave(self, client: str) -> None:
        account = self._running[client]
        account.running -= 1
        if not account.running:
            self._resting[client] = self._running.pop(client)

    def _forget(self, now: float) -> None:
        """Drop the accounts at the front that are as new ones: two at most, so that a request costs little."""
        for client, account in [*itertools.islice(self._resting.items(), 2)]:
            if now - account.since >= self._full_after:
                del self._resting[client]


def _refusal(text: str, seconds: int) -> RequestRefusedError:
    return RequestRefusedError(429, f"{text}; try again in {seconds} s", {"retry-after": str(seconds)})
