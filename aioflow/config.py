"""What a session and a run can be told."""

import dataclasses
from typing import Literal


@dataclasses.dataclass(frozen=True, slots=True)
class Config:
    """How a session works; TensorFlow's ConfigProto.

    Attributes:
        operation_timeout: seconds that a run without a limit of its own may take; None for no limit.
        plan_cache_size: how many call signatures keep their plan; the least recently used goes first.
        executor: `regions` compiles what never waits; `tokens` runs one node at a time and defines the meaning.
        optimize: whether plans are simplified, deduplicated and folded.
        compute_threads: threads on which heavy kernels run; started when first needed.
        fuse_elementwise: whether element-wise kernels over large arrays run block by block, on all cores; the results
            are the same.
        stall_report: seconds after which a session whose steps do not go on says in the log who waits for what; None
            for never.
        close_timeout: seconds that `close()` waits for kernels which a cancelled run left behind in C code.
    """

    operation_timeout: float | None = None
    plan_cache_size: int = 256
    executor: Literal["regions", "tokens"] = "regions"
    optimize: bool = True
    compute_threads: int = 1
    fuse_elementwise: bool = True
    stall_report: float | None = 60.0
    close_timeout: float = 5.0

    def __post_init__(self) -> None:
        for name in ("plan_cache_size", "compute_threads"):
            expect(name, getattr(self, name), int)
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1")
        if self.executor not in ("regions", "tokens"):
            raise ValueError(f"executor must be 'regions' or 'tokens', not {self.executor!r}")
        _check_seconds("operation_timeout", self.operation_timeout)
        _check_seconds("stall_report", self.stall_report)
        _check_seconds("close_timeout", self.close_timeout)


@dataclasses.dataclass(frozen=True, slots=True)
class RunOptions:
    """What one run is told.

    Attributes:
        timeout: seconds after which it ends with DeadlineExceededError; None for the session's limit.
        trace: whether every node's times and bytes are written to the run's RunMetadata.
        check_numerics: whether the first tensor, in the order of the graph, that is not finite ends the run.
    """

    timeout: float | None = None
    trace: bool = False
    check_numerics: bool = False

    def __post_init__(self) -> None:
        _check_seconds("timeout", self.timeout)


def _check_seconds(name: str, value: float | None) -> None:
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{name} is a number of seconds, not {value!r}")
    if not value >= 0:
        raise ValueError(f"{name} is in seconds and cannot be {value}")


def expect(name: str, value: object, kind: type) -> None:
    """TypeError unless `value` is None or of that class."""
    if value is not None and (not isinstance(value, kind) or isinstance(value, bool)):
        raise TypeError(f"{name} must be {kind.__name__}, not {value!r}")
