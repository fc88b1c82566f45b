"""A traced step."""

import dataclasses


@dataclasses.dataclass(frozen=True, slots=True)
class Bar:
    """One execution of an operation. Times are seconds since the begin of the step.

    Attributes:
        name: the operation.
        op_type: its type.
        lane: the number of the lane of its device and thread.
        ready: when its inputs were there.
        start: when its kernel began.
        end: when it was done.
        bytes: the size of its outputs.
        waits: whether it may have waited between start and end.
    """

    name: str
    op_type: str
    lane: int
    ready: float
    start: float
    end: float
    bytes: int
    waits: bool


@dataclasses.dataclass(frozen=True, slots=True)
class Arrow:
    """A value that went from one device to another.

    Attributes:
        key: the name it was sent with.
        source: the lane of the sender; -1 if unknown.
        target: the lane of the receiver; -1 if unknown.
        sent: when it was sent.
        arrived: when the receiver had it.
        bytes: its size.
    """

    key: str
    source: int
    target: int
    sent: float
    arrived: float
    bytes: int


@dataclasses.dataclass(frozen=True, slots=True)
class Lane:
    """A row of the timeline: a thread of a device."""

    device: str
    thread: str


@dataclasses.dataclass(frozen=True, slots=True)
class ValueStatistics:
    """The numbers in the first result of an operation.

    Attributes:
        name: the operation.
        count: the number of numbers.
        least: the least finite number.
        most: the largest finite number.
        mean: the mean of the finite numbers.
        strange: the number of numbers that are not finite.
    """

    name: str
    count: int
    least: float
    most: float
    mean: float
    strange: int


@dataclasses.dataclass(frozen=True, slots=True)
class Step:
    """One traced step. Its parts sum up to its seconds.

    Attributes:
        number: its number.
        time: when it began.
        seconds: how long it took, traced.
        compute: the seconds in which an operation computed.
        wire: the further seconds in which a value was on its way.
        wait: the other seconds.
        fetches: the names of the fetches.
        feeds: the names of the feeds.
        lanes: the rows of its timeline.
        bars: executions of operations, by their begin.
        arrows: transfers.
        critical: the names of the operations of the critical path, the last one first.
        values: statistics of results, of a step of this process.
        left_out: the executions beyond the most that are kept: the shortest.
    """

    number: int
    time: float
    seconds: float
    compute: float
    wire: float
    wait: float
    fetches: tuple[str, ...]
    feeds: tuple[str, ...]
    lanes: tuple[Lane, ...]
    bars: tuple[Bar, ...]
    arrows: tuple[Arrow, ...]
    critical: tuple[str, ...]
    values: tuple[ValueStatistics, ...] = ()
    left_out: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class StepSummary:
    """Tells a page that there is a traced step, which the page can ask for."""

    number: int
    time: float
    seconds: float
    compute: float
    wire: float
    wait: float
    fetches: tuple[str, ...]
