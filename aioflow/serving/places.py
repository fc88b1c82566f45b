"""How many inferences run at a time, in all and for each client, and what a client may have a second."""

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
        counts_rows: whether clients have a quota of rows.
    """

    def __init__(self, limits: Limits) -> None:
        self.taken: int = 0
        self.counts_rows: Final = math.isfinite(limits.client_rows)
        self._limits: Final = limits
        quotas = limits.client_requests, limits.client_rate, limits.client_rows
        self._clients: Final = _Clients(*quotas) if any(map(math.isfinite, quotas)) else None

    def take(self, client: str) -> None:
        """Let one more inference of a client run.

        Raises:
            RequestRefusedError: the client has as many as it may, or has had as many rows (429).
            ResourceExhaustedError: the server has as many as it may (503).
        """
        if self.taken >= self._limits.requests:
            text = f"{self.taken} requests run already, the most that the server takes at a time; try again"
            raise errors.ResourceExhaustedError(text)
        if self._clients is not None:
            self._clients.take(client)
        self.taken += 1

    def charge(self, client: str, rows: int) -> None:
        """Count the rows of an inference that runs. RequestRefusedError if the client has had as many as it may."""
        if self._clients is not None:
            self._clients.charge(client, rows)

    def leave(self, client: str) -> None:
        """End an inference of a client."""
        self.taken -= 1
        if self._clients is not None:
            self._clients.leave(client)


class _Account:
    """What a client has: inferences that run, those that it may still begin now, and the rows that it may have.

    The rows of a large request may exceed them: then they are negative until time has passed.
    """

    __slots__ = ("begins", "rows", "running", "since")

    def __init__(self, begins: float, rows: float, since: float) -> None:
        self.running = 0
        self.begins = begins
        self.rows = rows
        self.since = since


class _Clients:
    """The accounts of the clients. What a client may have grows with time, up to that of a second."""

    def __init__(self, most: float, rate: float, row_rate: float) -> None:
        self._most: Final = most
        self._rate: Final = rate
        self._row_rate: Final = row_rate
        self._burst: Final = max(1.0, rate)
        self._row_burst: Final = max(1.0, row_rate)
        self._running: Final[dict[str, _Account]] = {}
        self._resting: Final[dict[str, _Account]] = {}
        """The accounts of clients of which nothing runs."""

    def take(self, client: str) -> None:
        now = time.monotonic()
        self._forget(now)
        resting = self._resting.pop(client, None)
        account = self._running.get(client) or resting or _Account(self._burst, self._row_burst, now)
        self._fill(account, now)
        try:
            self._check(account)
        except RequestRefusedError:
            if not account.running:
                self._resting[client] = account
            raise
        account.begins -= 1
        account.running += 1
        self._running[client] = account

    def charge(self, client: str, rows: int) -> None:
        account = self._running[client]
        self._fill(account, time.monotonic())
        self._check_rows(account)
        account.rows -= rows

    def leave(self, client: str) -> None:
        account = self._running[client]
        account.running -= 1
        if not account.running:
            self._resting[client] = self._running.pop(client)

    def _check(self, account: _Account) -> None:
        if account.running >= self._most:
            raise _refusal(f"{account.running} requests of this client run already, the most that it may have", 1)
        if account.begins < 1:
            seconds = (1 - account.begins) / self._rate
            raise _refusal(f"this client may send {self._rate:g} requests a second", seconds)
        self._check_rows(account)

    def _check_rows(self, account: _Account) -> None:
        if account.rows <= 0:
            raise _refusal(f"this client may send {self._row_rate:g} rows a second", -account.rows / self._row_rate)

    def _fill(self, account: _Account, now: float) -> None:
        """Give an account what has grown since the last time."""
        seconds = now - account.since
        account.since = now
        if math.isfinite(self._rate):
            account.begins = min(self._burst, account.begins + self._rate * seconds)
        if math.isfinite(self._row_rate):
            account.rows = min(self._row_burst, account.rows + self._row_rate * seconds)

    def _forget(self, now: float) -> None:
        """Drop accounts that are as new ones. It looks at two at a time, so that a request costs little."""
        for client, account in [*itertools.islice(self._resting.items(), 2)]:
            self._fill(account, now)
            del self._resting[client]
            if account.begins < self._burst or account.rows < self._row_burst:
                self._resting[client] = account  # behind all others


def _refusal(text: str, seconds: float) -> RequestRefusedError:
    wait = max(1, math.ceil(seconds))
    return RequestRefusedError(429, f"{text}; try again in {wait} s", {"retry-after": str(wait)})
