"""The errors a run can end with, one class each.

    OpError
    ├── CancelledError            the run was ended by close() or by a peer; never asyncio's own
    ├── UnknownError              a kernel raised an exception without a class here
    ├── InvalidArgumentError      the given values, shapes or dtypes cannot work
    ├── DeadlineExceededError     a limit in seconds passed (also a TimeoutError)
    ├── NotFoundError             a named thing does not exist
    ├── AlreadyExistsError        a named thing exists already
    ├── PermissionDeniedError     the caller must not do this
    ├── UnauthenticatedError      the caller is not known
    ├── ResourceExhaustedError    memory, disk or a bound is used up
    ├── FailedPreconditionError   the state is not ready, such as an uninitialized variable
    ├── AbortedError              given up in favour of something else; try again
    ├── OutOfRangeError           the input has ended
    ├── UnimplementedError        the operation or kernel does not exist
    ├── InternalError             a broken invariant: a fault of aioflow itself
    ├── UnavailableError          a peer cannot be reached
    └── DataLossError             stored or sent data is damaged

Building a graph wrongly raises ValueError or TypeError instead, before anything runs.
"""

from collections.abc import Sequence
from typing import ClassVar, Final, Literal, Self

from aioflow.lazy import Face

Fault = Literal["caller", "environment", "aioflow"]

# TensorFlow's numbers for how a run can end, which `OpError.error_code` gives
OK: Final = 0
CANCELLED: Final = 1
UNKNOWN: Final = 2
INVALID_ARGUMENT: Final = 3
DEADLINE_EXCEEDED: Final = 4
NOT_FOUND: Final = 5
ALREADY_EXISTS: Final = 6
PERMISSION_DENIED: Final = 7
RESOURCE_EXHAUSTED: Final = 8
FAILED_PRECONDITION: Final = 9
ABORTED: Final = 10
OUT_OF_RANGE: Final = 11
UNIMPLEMENTED: Final = 12
INTERNAL: Final = 13
UNAVAILABLE: Final = 14
DATA_LOSS: Final = 15
UNAUTHENTICATED: Final = 16


class OpError(Exception):
    """The base of errors of runs. All facts for a handler are attributes.

    Attributes:
        message: the error in one sentence, without place or shapes.
        op: the name of the operation; None if the error belongs to no single one.
        op_type: its type, such as `matmul`.
        device: its device.
        task: its task, such as `/job:worker/replica:0/task:1`.
        line: the user's line that built the operation, such as `model.py:12 in build`.
        shapes: the dtype and shape of each input, such as `float32[2, 3]`.
        fault: whose fault it was.
        begun: whether anything of the run may have been done. False if it is known that nothing was, so that the run
            can be repeated, even if it has effects.

    Examples:
        >>> try:
        ...     await session.run(af.check_numerics(af.constant(1.0) / 0.0, "a quotient"))
        ... except af.OpError as error:
        ...     print(error.op, error.fault)
        check_numerics caller
    """

    fault: Fault = "caller"
    begun: bool = True
    code: ClassVar[str] = "unknown"

    def __init__(self, message: str, *more: object, op: str | None = None, task: str | None = None) -> None:
        if more:  # TensorFlow's (node_def, op, message)
            text = next((each for each in more if isinstance(each, str)), "what went wrong")
            name = type(self).__name__
            raise TypeError(f"{name} takes its message first, and the rest by name: {name}({text!r}, op=None)")
        super().__init__(message)
        self.message = message
        self.op = op
        self.task = task
        self.op_type: str | None = None
        self.device: str | None = None
        self.line: str | None = None
        self.shapes: tuple[str, ...] = ()

    @property
    def error_code(self) -> int:
        """TensorFlow's number for its `code`, as `errors.NOT_FOUND`."""
        return error_code_from_exception_type(type(self))

    def at(self, op: str, op_type: str, *, line: str | None, device: str | None, shapes: Sequence[str]) -> Self:
        """Say where it happened, unless a kernel nearer to the cause has said so. Returns the error."""
        if self.op is None:
            self.op, self.op_type, self.line, self.device = op, op_type, line, device
            self.shapes = tuple(shapes)
        return self

    def __str__(self) -> str:
        lines = [self.message]
        if self.op is not None:
            kind = f" ({self.op_type})" if self.op_type else ""
            device = self.device or ""
            whole = self.task is None or "/task:" in device or "/job:" in device
            where = device if whole else f"{self.task}{device}"
            lines.append(f"  op: {self.op!r}{kind}" + (f" on {where}" if where else ""))
        if self.shapes:
            lines.append("  inputs: " + ", ".join(self.shapes))
        if self.line:
            lines.append(f"  built at: {self.line}")
        return "\n".join(lines)


class CancelledError(OpError):
    """The run was ended by `close()` or by a peer, not by cancelling the task that awaited it.

    Examples:
        >>> step = asyncio.create_task(session.run(af.FIFOQueue(1, [af.int32]).dequeue()))
        >>> await asyncio.sleep(0)
        >>> await session.close()
        >>> try:
        ...     await step
        ... except af.errors.CancelledError as error:
        ...     print(error.code)
        cancelled
    """

    code = "cancelled"


class UnknownError(OpError):
    """A kernel, often a `py_func`, raised an exception without a class here.

    Examples:
        >>> def broken(x):
        ...     raise KeyError(x)
        >>> try:
        ...     await session.run(af.py_func(broken, [1], af.int32))
        ... except af.errors.UnknownError as error:
        ...     print(error.op_type)
        py_func
    """

    code = "unknown"


class InvalidArgumentError(OpError):
    """The values, shapes or dtypes an operation was given cannot work.

    Examples:
        >>> index = af.placeholder(af.int32, [])
        >>> try:
        ...     await session.run(af.gather([1, 2], index), {index: 5})
        ... except af.errors.InvalidArgumentError as error:
        ...     print(error.op_type)
        gather
    """

    code = "invalid_argument"


class DeadlineExceededError(OpError, TimeoutError):
    """A limit in seconds passed: `RunOptions(timeout=)` or `Config(operation_timeout=)`.

    Examples:
        >>> queue = af.FIFOQueue(1, [af.int32])
        >>> try:
        ...     await session.run(queue.dequeue(), options=af.RunOptions(timeout=0.01))
        ... except TimeoutError as error:
        ...     print(type(error).__name__)
        DeadlineExceededError
    """

    code = "deadline_exceeded"
    fault = "environment"


class NotFoundError(OpError):
    """A named thing (a resource, a file, a kernel) does not exist.

    Examples:
        >>> try:
        ...     await session.run(af.read_file("missing.txt"))
        ... except af.errors.NotFoundError as error:
        ...     print(error.fault)
        caller
    """

    code = "not_found"


class AlreadyExistsError(OpError):
    """A named thing that was to be made exists already.

    Examples:
        >>> af.gfile.MakeDirs("models")
        >>> try:
        ...     af.gfile.MkDir("models")
        ... except af.errors.AlreadyExistsError:
        ...     print("it is there")
        it is there
    """

    code = "already_exists"


class PermissionDeniedError(OpError):
    """The caller is known and may not do this.

    Examples:
        >>> issubclass(af.errors.PermissionDeniedError, af.errors.OpError)
        True
    """

    code = "permission_denied"


class UnauthenticatedError(OpError):
    """The caller did not show a valid credential.

    Examples:
        >>> issubclass(af.errors.UnauthenticatedError, af.errors.OpError)
        True
    """

    code = "unauthenticated"


class ResourceExhaustedError(OpError):
    """Memory, disk or a configured bound is used up.

    Examples:
        >>> try:
        ...     await session.run(af.zeros([2**40, 2**20]))
        ... except af.errors.ResourceExhaustedError:
        ...     print("no machine has that much memory")
        no machine has that much memory
    """

    code = "resource_exhausted"
    fault = "environment"


class FailedPreconditionError(OpError):
    """The state is not ready for the operation, as a variable that was never initialised.

    Examples:
        >>> state = af.Variable(1, name="state")
        >>> try:
        ...     await session.run(state)
        ... except af.errors.FailedPreconditionError as error:
        ...     print(error.op)
        state/read
    """

    code = "failed_precondition"


class AbortedError(OpError):
    """Given up in favour of something else, as a restarted worker; trying again may succeed.

    Examples:
        >>> raised = af.errors.AbortedError("the worker restarted", op="train")
        >>> isinstance(raised, af.errors.OpError), raised.op
        (True, 'train')
    """

    code = "aborted"
    fault = "environment"


class OutOfRangeError(OpError):
    """The input has ended, as a closed and empty queue.

    Examples:
        >>> queue = af.FIFOQueue(1, [af.int32])
        >>> await session.run(queue.close())
        >>> try:
        ...     await session.run(queue.dequeue())
        ... except af.errors.OutOfRangeError as error:
        ...     print(error.op_type)
        queue_dequeue
    """

    code = "out_of_range"


class UnimplementedError(OpError):
    """The operation does not exist, or has no kernel for this device and these dtypes.

    Examples:
        >>> issubclass(af.errors.UnimplementedError, af.errors.OpError)
        True
    """

    code = "unimplemented"


class InternalError(OpError):
    """An invariant of aioflow is broken: please report it.

    Examples:
        >>> issubclass(af.errors.InternalError, af.errors.OpError)
        True
    """

    code = "internal"
    fault = "aioflow"


class UnavailableError(OpError):
    """A peer cannot be reached now.

    Examples:
        >>> af.errors.UnavailableError("no answer", task="/job:ps/task:0").task
        '/job:ps/task:0'
    """

    code = "unavailable"
    fault = "environment"


class DataLossError(OpError):
    """Stored or sent data is damaged beyond repair.

    Examples:
        >>> with open("damaged", "wb") as file:
        ...     size = file.write(b"no records at all")
        >>> try:
        ...     [record async for record in af.data.TFRecordDataset("damaged")]
        ... except af.errors.DataLossError as error:
        ...     print(error.fault)
        environment
    """

    code = "data_loss"
    fault = "environment"


def error_code_from_exception_type(cls: type[OpError]) -> int:
    """TensorFlow's number for the errors of that class, as `NOT_FOUND` for NotFoundError.

    Examples:
        >>> af.errors.error_code_from_exception_type(af.errors.NotFoundError)
        5
    """
    number: int = globals()[cls.code.upper()]
    return number


def exception_type_from_error_code(error_code: int) -> type[OpError]:
    """The class of the errors of that number. ValueError if no error has it.

    Examples:
        >>> af.errors.exception_type_from_error_code(af.errors.NOT_FOUND).__name__
        'NotFoundError'
    """
    for kind in OpError.__subclasses__():
        if error_code_from_exception_type(kind) == error_code:
            return kind
    raise ValueError(f"{error_code!r} is the number of no error; they go from {CANCELLED} to {UNAUTHENTICATED}")


_BY_EXCEPTION: tuple[tuple[type[BaseException], type[OpError]], ...] = (
    (TimeoutError, DeadlineExceededError),
    (FileNotFoundError, NotFoundError),
    (FileExistsError, AlreadyExistsError),
    (PermissionError, PermissionDeniedError),
    (ConnectionError, UnavailableError),
    (NotImplementedError, UnimplementedError),
    (MemoryError, ResourceExhaustedError),
    (StopIteration, OutOfRangeError),
    (StopAsyncIteration, OutOfRangeError),
    (EOFError, OutOfRangeError),
    (ValueError, InvalidArgumentError),
    (TypeError, InvalidArgumentError),
    (IndexError, InvalidArgumentError),
    (OverflowError, InvalidArgumentError),
)


def from_exception(error: BaseException) -> OpError:
    """Return the OpError for an exception of a kernel; an OpError is returned itself."""
    if isinstance(error, OpError):
        return error
    kind = next((ours for theirs, ours in _BY_EXCEPTION if isinstance(error, theirs)), UnknownError)
    text = str(error)
    made = kind(text if kind is InvalidArgumentError and text else f"{type(error).__name__}: {text}".removesuffix(": "))
    made.__cause__ = error
    return made


__all__ = [
    "ABORTED",
    "ALREADY_EXISTS",
    "CANCELLED",
    "DATA_LOSS",
    "DEADLINE_EXCEEDED",
    "FAILED_PRECONDITION",
    "INTERNAL",
    "INVALID_ARGUMENT",
    "NOT_FOUND",
    "OK",
    "OUT_OF_RANGE",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "UNAUTHENTICATED",
    "UNAVAILABLE",
    "UNIMPLEMENTED",
    "UNKNOWN",
    "AbortedError",
    "AlreadyExistsError",
    "CancelledError",
    "DataLossError",
    "DeadlineExceededError",
    "FailedPreconditionError",
    "InternalError",
    "InvalidArgumentError",
    "NotFoundError",
    "OpError",
    "OutOfRangeError",
    "PermissionDeniedError",
    "ResourceExhaustedError",
    "UnauthenticatedError",
    "UnavailableError",
    "UnimplementedError",
    "UnknownError",
    "error_code_from_exception_type",
    "exception_type_from_error_code",
]  # fmt: skip
Face(__name__, {__name__: " ".join(__all__)})
