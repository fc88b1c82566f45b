"""The error tree."""

import pickle

import pytest

from aioflow import errors
from aioflow.errors import OpError, from_exception

CLASSES = OpError.__subclasses__()


def test_there_are_sixteen_errors_each_with_its_code_and_docstring():
    assert len(CLASSES) == 16
    assert len({kind.code for kind in CLASSES}) == 16
    assert all(kind.__name__ in errors.__doc__ for kind in CLASSES)


@pytest.mark.parametrize("kind", [OpError, *CLASSES])
def test_an_error_keeps_its_fields(kind):
    error = kind("it went wrong", op="layer/h", task="/job:worker/task:1")
    assert (error.message, error.op, error.task) == ("it went wrong", "layer/h", "/job:worker/task:1")
    assert error.fault in ("caller", "environment", "aioflow")
    copied = pickle.loads(pickle.dumps(error))
    assert (type(copied), str(copied), copied.task) == (kind, str(error), error.task)


def test_an_error_names_op_device_inputs_and_the_users_line():
    error = errors.InvalidArgumentError("shapes differ")
    assert str(error) == "shapes differ"
    assert error.at("h", "matmul", line="model.py:12 in build", device="/device:GPU:0", shapes=["float32[2]"]) is error
    assert str(error).splitlines() == [
        "shapes differ",
        "  op: 'h' (matmul) on /device:GPU:0",
        "  inputs: float32[2]",
        "  built at: model.py:12 in build",
    ]


def test_who_is_nearest_to_the_cause_says_where():
    error = errors.InternalError("broken").at("inner", "add", line=None, device=None, shapes=())
    error.at("outer", "while", line="x.py:1 in f", device="/device:CPU:0", shapes=["int32[]"])
    assert (error.op, error.op_type, error.line, error.device, error.shapes) == ("inner", "add", None, None, ())


def test_an_error_names_the_task_unless_the_device_does():
    error = errors.UnavailableError("gone", op="recv", task="/job:ps/task:0")
    assert "op: 'recv' on /job:ps/task:0" in str(error)
    error.device = "/job:ps/task:0/device:CPU:0"
    assert str(error).count("/job:ps") == 1
    error.device = "/job:another"
    assert str(error).endswith("on /job:another")


def test_a_passed_deadline_is_a_timeout_error_too():
    assert issubclass(errors.DeadlineExceededError, TimeoutError)


@pytest.mark.parametrize(
    ("raised", "kind", "text"),
    [
        (ValueError("bad value"), errors.InvalidArgumentError, "bad value"),
        (TypeError("bad type"), errors.InvalidArgumentError, "bad type"),
        (IndexError("too far"), errors.InvalidArgumentError, "too far"),
        (ValueError(), errors.InvalidArgumentError, "ValueError"),
        (StopIteration(), errors.OutOfRangeError, "StopIteration"),
        (StopAsyncIteration(), errors.OutOfRangeError, "StopAsyncIteration"),
        (EOFError("end"), errors.OutOfRangeError, "EOFError: end"),
        (MemoryError("full"), errors.ResourceExhaustedError, "MemoryError: full"),
        (NotImplementedError("later"), errors.UnimplementedError, "NotImplementedError: later"),
        (TimeoutError("late"), errors.DeadlineExceededError, "TimeoutError: late"),
        (FileNotFoundError(2, "no"), errors.NotFoundError, "FileNotFoundError: [Errno 2] no"),
        (FileExistsError("there"), errors.AlreadyExistsError, "FileExistsError: there"),
        (PermissionError("no"), errors.PermissionDeniedError, "PermissionError: no"),
        (ConnectionResetError("cut"), errors.UnavailableError, "ConnectionResetError: cut"),
        (KeyError("k"), errors.UnknownError, "KeyError: 'k'"),
        (ZeroDivisionError("zero"), errors.UnknownError, "ZeroDivisionError: zero"),
    ],
)
def test_what_a_kernel_raises_becomes_the_error_of_its_kind(raised, kind, text):
    made = from_exception(raised)
    assert (type(made), made.message) == (kind, text)
    assert made.__cause__ is raised


def test_an_error_of_ours_stays_the_same():
    error = errors.AbortedError("restarted")
    assert from_exception(error) is error


def test_each_error_has_tensorflows_number():
    assert (errors.OK, errors.CANCELLED, errors.NOT_FOUND, errors.DATA_LOSS) == (0, 1, 5, 15)
    assert sorted(kind("gone").error_code for kind in CLASSES) == list(range(1, 17))
    assert OpError("x").error_code == errors.UNKNOWN
    for kind in CLASSES:
        number = errors.error_code_from_exception_type(kind)
        assert number == getattr(errors, kind.code.upper())
        assert errors.exception_type_from_error_code(number) is kind
    with pytest.raises(ValueError, match="17 is the number of no error; they go from 1 to 16"):
        errors.exception_type_from_error_code(17)
