"""How many inferences run at a time, in all and for each client, and how many a client may begin a second."""

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
        self._limits: Final = limits
        self._burst: Final = max(1.0, limits.client_rate)
        self._accounts: Final[dict[str, _Account]] = {}
        """Those that have begun an inference last stand last."""

    def take(self, client: str) -> None:
        now, most, rate = time.monotonic(), self._limits.client_requests, self._limits.client_rate
        self._forget(now)
        account = self._accounts.pop(client, None) or _Account(self._burst, now)
        self._accounts[client] = account
        if math.isfinite(rate):
            account.left = min(self._burst, account.left + rate * (now - account.since))
        account.since = now
        if account.running >= most:
            raise _refusal(f"{account.running} requests of this client run already, the most that it may have", 1)
        if account.left < 1:
            raise _refusal(f"this client may send {rate:g} requests a second", math.ceil((1 - account.left) / rate))
        account.left -= 1
        account.running += 1

    def leave(self, client: str) -> None:
        self._accounts[client].running -= 1

    def _forget(self, now: float) -> None:
        """Drop the accounts at the front that are as new ones."""
        full = self._burst / self._limits.client_rate
        for client, account in [*self._accounts.items()][:2]:
            if not account.running and now - account.since >= full:
                del self._accounts[client]


def _refusal(text: str, seconds: int) -> RequestRefusedError:
    return RequestRefusedError(429, f"{text}; try again in {seconds} s", {"retry-after": str(seconds)})
