"""Messages: each verb there and back, and what is refused of one by name."""

import msgpack
import numpy as np
import pytest

from aioflow import errors
from aioflow.net.wire.codec import ProtocolError, announcement
from aioflow.net.wire.control_verbs import Credit, Failure, Hello, Reply
from aioflow.net.wire.failures import error_of, failure_of
from aioflow.net.wire.limits import Limits
from aioflow.net.wire.master_verbs import CloseSession, Reset, RunStep, UseQueue
from aioflow.net.wire.schema import ANSWERS, VERBS, Answer, Request
from aioflow.net.wire.worker_verbs import RecvTensor, Trace
from tests.support.net_frames import LIMITS, frame, frames, listed, put_together
from tests.support.net_samples import FAILURE, KEY, MESSAGES, SESSION, X, plain

TRACE = "00-" + "ab" * 16 + "-" + "cd" * 8 + "-01"


def test_there_is_a_sample_of_every_message():
    assert {type(message).__name__ for message in MESSAGES} == set(VERBS)


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_a_message_arrives_as_it_was_sent(message):
    if type(message).__name__ in ("Part", "Drop"):  # these are about other messages
        assert announcement(*frames(message), LIMITS).record.cls is type(message)
        return
    (found,) = put_together(frames(message, 5, left=2.5, trace=TRACE))
    assert (found.number, found.left, found.trace) == (5, 2.5, TRACE)
    assert plain(found.message) == plain(message)


def test_every_request_has_an_answer():
    requests = {record.cls for record in VERBS.values() if issubclass(record.cls, Request)}
    assert requests == set(ANSWERS)
    assert all(issubclass(answer, Answer) and answer.__name__ in VERBS for answer in ANSWERS.values())


def test_fields_that_have_their_default_are_left_out():
    (found,) = frames(RunStep(SESSION))
    assert msgpack.unpackb(found[4:]) == [VERBS["RunStep"].number, 1, [SESSION, *[None] * 6]]


CLOSE = {"verb": "CloseSession", "id": 1, "fields": {"session": SESSION}}
RUN = {"verb": "RunStep", "id": 1, "fields": {"session": SESSION, "feeds": {"x:0": 0}}}


@pytest.mark.whole
@pytest.mark.parametrize(
    ("header", "text"),
    [
        ({"verb": 127, "id": 1}, "unknown message 127 in this version"),
        ({"verb": "CloseSession."}, "the header's verb: 'CloseSession.' is not an integer"),
        ([1, 2], "is no header: a list of verb, id, fields"),
        ([*listed(CLOSE), 1], "is no header"),
        (msgpack.packb(CLOSE), "is no header"),
        (CLOSE | {"id": -1}, "the header's id: -1 is not an integer from 0"),
        (CLOSE | {"id": True}, "the header's id: True is not an integer"),
        (CLOSE | {"left": float("nan")}, "the header's left: nan is not a number"),
        (CLOSE | {"left": -1.0}, "the header's left"),
        (CLOSE | {"trace": "00-xyz"}, "the header's trace"),
        (CLOSE | {"trace": 0}, "the header's trace"),
        (CLOSE | {"fields": 7}, "7 is not a list of the fields of CloseSession: session"),
        (CLOSE | {"fields": []}, "is not a list of the fields of CloseSession: session"),
        (CLOSE | {"fields": [SESSION, 1]}, "is not a list of the fields of CloseSession: session"),
        (CLOSE | {"fields": {}}, "CloseSession.session: None is not a text"),
        (CLOSE | {"fields": {"session": "x"}}, "CloseSession.session: 'x' does not match"),
        (CLOSE | {"fields": {"session": 7}}, "CloseSession.session: 7 is not a text"),
        (CLOSE | {"follows": 1}, "1 bytes are more than the 0 of the values"),
        (RUN, "RunStep.feeds: 0 is not the number of a value"),
        (RUN | {"values": [["dead"], ["dead"]]}, "RunStep has 2 values, and its fields do not name 1 of them"),
        (RUN | {"values": 7}, "the header's values: 7 is not a list"),
        (RUN | {"values": [["array", "object", [1], 8]]}, "not a dtype whose bytes can be sent"),
        (RUN | {"values": [["bytes", LIMITS.tensor + 1]]}, "more than the 2147483648 that were agreed on"),
        (RUN | {"values": [["bytes", LIMITS.tensor]], "follows": 1 << 32}, "4294967296 bytes are more than"),
        ({"verb": "Traced", "fields": {"events": 0}, "values": [["dead"]]}, "Traced.events: value 0 is not bytes"),
        ({"verb": "Hello", "fields": {"role": "king"}}, "Hello.role: 'king' is not one of control, bulk, client"),
        ({"verb": "CancelStep", "fields": {"step": 1, "cause": ["x"]}}, "CancelStep.cause: .* of Failure"),
        ({"verb": "CancelStep", "fields": {"step": 1, "cause": 7}}, "is not a list of the fields of Failure"),
        ({"verb": "Reset", "fields": {"containers": ["x"] * 70_000}}, "not a list of at most 65536"),
        ({"verb": "Credit", "fields": {"nbytes": -1}}, "Credit.nbytes: -1 is not an integer from 0"),
        ({"verb": "RunStep", "fields": {"session": SESSION, "options": {"a": [[[[[[[[[[]]]]]]]]]]}}}, "than 8 deep"),
        ({"verb": "RunStep", "fields": {"session": SESSION, "options": {"a": b"x"}}}, "not plain data"),
        (7, "7 is no header"),
        (b"\xc1", "the header is not valid msgpack"),
        (b"\xdd\xff\xff\xff\xff", "the header is not valid msgpack"),
        (b"\x91" * 60_000, "the header is not valid msgpack"),
        (b"\xc7\x01\x05x", "the header is not valid msgpack"),
        (b"\x81\x01\x02", "the header is not valid msgpack"),
        (b"\xa1\xff", "the header is not valid msgpack"),
        (msgpack.packb(listed(CLOSE)) + b"x", "the header is not valid msgpack"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_and_named(header, text):
    with pytest.raises(ProtocolError, match=text):
        put_together([frame(header)])


@pytest.mark.parametrize("data", [b"", b"\x05", b"\x05\x00\x00\x00ab", b"\xff\xff\xff\xff" + b"x" * 100])
def test_a_frame_that_is_cut_off_is_refused(data):
    with pytest.raises(ProtocolError, match=r"has no header|is cut off"):
        announcement(data, LIMITS)


def test_a_header_that_is_too_long_is_refused_unread():
    with pytest.raises(ProtocolError, match=rf"a header of {LIMITS.header + 1} bytes is cut off, or longer than"):
        announcement(frame(b"\xc0" * (LIMITS.header + 1)), LIMITS)


def test_values_are_bounded_in_sum():
    limits = Limits(tensor=4096, message=8192)
    header = {"verb": "StepDone", "fields": {"values": [0, 1, 2]}, "values": [["bytes", 4000]] * 3}
    with pytest.raises(ProtocolError, match="values of 12000 bytes are more than the 8192 of a message"):
        announcement(frame(header), limits)


@pytest.mark.parametrize(
    ("message", "error", "text"),
    [
        (CloseSession("x"), errors.InvalidArgumentError, "CloseSession.session: 'x' does not match"),
        (Reset(["x"]), errors.InvalidArgumentError, "not a list of at most 65536"),
        (Trace(-1.0), errors.InvalidArgumentError, "Trace.seconds: -1.0 is not a number from 0"),
        (UseQueue(SESSION, "q", "take", option=2), errors.InvalidArgumentError, "2 is neither true nor false"),
        (RecvTensor(1 << 64, 1, (KEY,)), errors.InvalidArgumentError, "RecvTensor.step"),
        (RunStep(SESSION, {"x:0": object()}), errors.InvalidArgumentError, "cannot leave its process"),
        (RunStep(SESSION, {7: X}), errors.InvalidArgumentError, "7 is not a text"),
        (RunStep(SESSION, fetches=("x" * 1000,) * 1100), errors.ResourceExhaustedError, "1048576 are the most"),
        (RunStep(SESSION, {"x:0": np.zeros(2000)}), errors.ResourceExhaustedError, "a value of 16000 bytes is more"),
        (Reset(("\ud800",)), errors.InvalidArgumentError, "surrogates not allowed"),
    ],
)
def test_what_cannot_be_sent_is_refused_before_it_is(message, error, text):
    with pytest.raises(error, match=text):
        frames(message, limits=Limits(tensor=4096))


# Errors


@pytest.mark.parametrize("kind", errors.OpError.__subclasses__())
def test_an_error_is_raised_there_as_it_was_raised_here(kind):
    error = kind("what went wrong", op="add", task="/job:ps/replica:0/task:0")
    error.op_type, error.device, error.line, error.shapes = "add_n", "/device:CPU:0", "m.py:1 in f", ("float32[2]",)
    error.add_note("while training")
    (message,) = put_together(frames(failure_of(error, "/job:worker/replica:0/task:1")))
    found = error_of(message.message)
    assert type(found) is kind
    assert vars(found) == vars(error)
    assert str(found) == str(error)


def test_an_error_names_the_task_it_was_raised_in():
    found = error_of(failure_of(ValueError("no"), "/job:worker/replica:0/task:1"))
    assert type(found) is errors.InvalidArgumentError
    assert (found.message, found.task) == ("no", "/job:worker/replica:0/task:1")


def test_an_error_of_a_later_version_is_an_unknown_error_that_says_its_kind():
    found = error_of(Failure("melted", "it is too hot"))
    assert type(found) is errors.UnknownError
    assert found.message == "it is too hot (an error of the kind 'melted')"


def test_an_error_of_any_length_can_be_sent():
    error = errors.InternalError("é\ud800" * 10_000).at(
        "o" * 9999, "t" * 999, line="l" * 9999, device="d" * 999, shapes=["é" * 999] * 99
    )
    for _ in range(99):
        error.add_note("ü" * 9999)
    ((found,),) = [put_together(frames(failure_of(error, "")))]
    assert found.message.message.endswith(" ...")
    assert len(found.message.notes) == 8


def test_limits_are_agreed_one_by_one():
    one, other = Limits(chunk=4096, requests=5), Limits(tensor=1 << 20, requests=50)
    assert one.agreed(other) == other.agreed(one) == Limits(chunk=4096, tensor=1 << 20, requests=5)


def test_a_huge_value_leaves_room_for_others():
    assert [LIMITS.charge(nbytes) for nbytes in (1, 1 << 20, 1 << 30)] == [1, 1 << 20, 32 << 20]


def test_messages_are_values():
    assert Credit(5) == Credit(5) != Credit(6)
    assert Reply() == Reply()
    assert FAILURE.code == "data_loss"
    assert Hello("client", (1,), 1).limits == Limits()


@pytest.mark.parametrize(
    "keys",
    [
        ((1 << 32,),), ((-1,),), ((1, 1 << 63),), ((True,),), ((1.0,),), (("1",),), ((),), ((1,) * 257,), ((1,),) * 17,
        (1,), ((1, None),),
    ],
)  # fmt: skip
def test_keys_that_are_none_are_neither_sent_nor_received(keys):
    with pytest.raises(ValueError, match="is not a"):
        VERBS["RecvTensor"].write(RecvTensor(1, 1, keys), [])
    lists = [list(key) if isinstance(key, tuple) else key for key in keys]
    header = {"verb": "RecvTensor", "id": 1, "fields": {"step": 1, "incarnation": 1, "keys": lists}}
    with pytest.raises(ProtocolError, match=r"RecvTensor.keys: .* is not a"):
        announcement(frame(header), LIMITS).check()


NUMBERS = ["int8", "int8"]


@pytest.mark.parametrize(("places", "found"), [([0, 1], (3, 4)), ([1, 0], (4, 3))])
def test_values_come_in_the_order_of_their_numbers(places, found):
    header = {"verb": "RunCallable", "id": 1, "fields": {"session": SESSION, "handle": 1, "feeds": places}}
    (envelope,) = put_together([frame(header | {"values": NUMBERS}, b"\3\4")])
    assert envelope.message.feeds == found


@pytest.mark.parametrize("places", [[0], [0, 0], [0, 2], [False, True], [0.0, 1.0], []])
def test_values_whose_numbers_are_wrong_are_refused(places):
    header = {"verb": "RunCallable", "id": 1, "fields": {"session": SESSION, "handle": 1, "feeds": places}}
    with pytest.raises(ProtocolError, match=r"RunCallable.feeds: .* is not the number|do not name"):
        put_together([frame(header | {"values": NUMBERS}, b"\3\4")])


def test_scalars_have_no_more_bytes_than_the_limits_of_a_message_allow():
    values, limits = ["complex128"] * 65, Limits(tensor=1 << 10, message=1 << 10)
    header = {"verb": "RunCallable", "id": 1, "fields": {"session": SESSION, "handle": 1, "feeds": [*range(65)]}}
    with pytest.raises(ProtocolError, match="values of 1040 bytes are more than the 1024"):
        announcement(frame(header | {"values": values}, bytes(1040)), limits)
