"""How the requests of a model share runs."""

import dataclasses
from collections.abc import Sequence

from aioflow.graph.operation import items_of
from aioflow.session.request_batcher import Limits


@dataclasses.dataclass(frozen=True, slots=True)
class Batching:
    """The limits of `Session.batched` for the signatures of a model; see there. ValueError if one makes no sense.

    Attributes:
        max_rows: the rows of a batch, at most.
        max_delay: the seconds that a request waits for others, at most.
        max_waiting: the rows that wait, at most; further requests are refused.
        buckets: sizes to which open axes of rows are padded.
        priorities: the levels of priority that a request may have.
        isolate_errors: whether the requests of a batch that fails are run again one by one.

    Examples:
        >>> af.serving.Batching(max_rows=32).max_rows
        32
    """

    max_rows: int = 64
    max_delay: float = 0.002
    max_waiting: int = 4096
    buckets: Sequence[int] = ()
    priorities: int = 1
    isolate_errors: bool = False

    def __post_init__(self) -> None:
        Limits(self.max_rows, self.max_delay, self.max_waiting, self.priorities)
        if any(not isinstance(bucket, int) or bucket < 1 for bucket in items_of("buckets", self.buckets)):
            raise ValueError(f"buckets are sizes of at least 1, not {list(self.buckets)}")
        if not isinstance(self.isolate_errors, bool):
            raise TypeError(f"isolate_errors is True or False, not {self.isolate_errors!r}")
