"""Served models."""

import dataclasses
from collections.abc import Mapping


@dataclasses.dataclass(frozen=True, slots=True)
class ServedVersion:
    """A version of a served model, with its labels, and with the error if it has failed."""

    number: int
    state: str
    labels: tuple[str, ...]
    error: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class ServedModel:
    """A served model. Counts begin when the page is opened; percentiles are those of the last requests and calls.

    Attributes:
        name: its name.
        versions: its versions, the newest first.
        requests: the requests that have ended, by status.
        calls: the calls of its batchers: requests, and those of the program itself.
        rows: the rows of its batches.
        waiting: the number of rows that wait now.
        refused: the calls for which there was no room.
        batches: the number of batches by the reason why they began.
        batch_rows: the number of batches with up to 1, 2, 4 and so on rows.
        request_seconds: the 50th, 90th and 99th percentile of the time of a request.
        call_seconds: the same of the time of a call: its wait, and the run of its batch.
        wait_seconds: the same of the wait before the batch.
    """

    name: str
    versions: tuple[ServedVersion, ...]
    requests: Mapping[str, int]
    calls: int
    rows: int
    waiting: int
    refused: int
    batches: Mapping[str, int]
    batch_rows: tuple[int, ...]
    request_seconds: tuple[float, ...]
    call_seconds: tuple[float, ...]
    wait_seconds: tuple[float, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Serving:
    """The models of a server at one moment."""

    time: float
    models: tuple[ServedModel, ...]
