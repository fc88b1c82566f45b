"""Messages cut into frames and put together again, with others between; and what is done about frames that lie."""

import contextlib
import dataclasses

import msgpack
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from aioflow.net.wire.codec import Envelope, ProtocolError
from aioflow.net.wire.control_verbs import Drop, Part
from aioflow.net.wire.framing import BURST, Outgoing, offsets
from aioflow.net.wire.limits import INLINE, Limits
from aioflow.net.wire.master_verbs import RunStep, StepDone
from aioflow.net.wire.schema import VERBS
from aioflow.net.wire.worker_verbs import TensorSent
from tests.support.net_frames import LIMITS, Everything, announced, assembler, bursts, frame, frames, put_together
from tests.support.net_samples import MESSAGES, SESSION, plain
from tests.support.scale import amount

SMALL = Limits(chunk=1024, window=64 << 10, requests=4)


def array(nbytes, seed=0):
    return np.random.default_rng(seed).integers(0, 256, nbytes, np.uint8)


@pytest.mark.parametrize("nbytes", [0, 1, INLINE, INLINE + 1, 64 << 10, (64 << 10) + 1, 3 << 20])
def test_a_value_of_any_size_arrives(nbytes):
    value = array(nbytes)
    found = frames(TensorSent((0,), (value,)))
    assert (len(found) == 1) == (nbytes <= INLINE)
    assert max(map(len, found)) <= LIMITS.frame
    (message,) = put_together(found)
    assert (message.message.values[0] == value).all()


def test_a_large_value_is_sent_in_views_of_itself():
    value = array(1 << 20)
    sent = [frame for burst in Outgoing(Envelope(1, TensorSent((0,), (value,))), LIMITS).bursts() for frame in burst]
    views = [frame for frame in sent if isinstance(frame, memoryview)]
    assert len(views) == 16
    assert all(np.shares_memory(np.frombuffer(view, np.uint8), value) for view in views)


@pytest.mark.parametrize(
    ("part", "whole", "views"),
    [(INLINE + 1, 4 * INLINE, 1), (INLINE + 1, 5 * INLINE, 0), (BURST, 8 * BURST, 0), (BURST + 1, 8 * BURST, 17)],
)
def test_a_small_part_of_an_array_is_sent_as_a_copy(part, whole, views):
    value = array(whole)[5 : 5 + part]
    sent = [frame for burst in Outgoing(Envelope(1, TensorSent((0,), (value,))), LIMITS).bursts() for frame in burst]
    assert sum(isinstance(frame, memoryview) for frame in sent) == views
    (message,) = put_together(map(bytes, sent))
    assert (message.message.values[0] == value).all()


def test_small_values_beside_a_large_one_share_a_frame():
    feeds = {f"x{number}:0": array(100, number) for number in range(50)} | {"large:0": array(1 << 20)}
    found = frames(RunStep(SESSION, feeds))
    assert len(found) == 1 + 1 + 16 + 1  # header, small ones, large one, and the header of the second burst
    (message,) = put_together(found)
    assert plain(message.message.feeds) == plain(feeds)


def test_no_raw_frame_is_longer_than_a_chunk():
    values = tuple([array(size) for size in (3000, 2000, 3000, 900, 5000)] * 4)
    (burst,) = bursts(StepDone(values), 1, Limits(chunk=4096))
    assert sum(map(len, burst[1:])) == sum(value.nbytes for value in values)
    assert max(map(len, burst[1:])) <= 4096


def test_a_burst_is_short_enough_for_others_to_come_between():
    assert max(map(len, bursts(TensorSent((0,), (array(5 << 20),))))) == BURST // LIMITS.chunk + 1


@given(st.data())
def test_bursts_of_many_messages_in_any_order_make_the_same_messages(data):
    sizes = data.draw(st.lists(st.integers(0, 40_000), min_size=1, max_size=4))
    sent = {number: StepDone((array(size, number), array(size // 3, number))) for number, size in enumerate(sizes)}
    queues = {number: bursts(message, number, Limits(chunk=1024)) for number, message in sent.items()}
    found, receiver = assembler(Limits(chunk=1024)), {}
    while queues:
        number = data.draw(st.sampled_from(sorted(queues)))
        for piece in queues[number].pop(0):
            message = found.feed(piece)
            if message is not None:
                receiver[message.number] = message.message
        if not queues[number]:
            del queues[number]
    assert plain(receiver) == plain(sent)
    assert found.pending == 0


# Credit, and what nobody wants


def test_what_arrives_takes_of_the_window_until_it_is_whole():
    found = assembler()
    first, *rest = bursts(TensorSent((0,), (array(3 << 20),)))
    for piece in first:
        found.feed(piece)
    assert (found.received, found.pending) == (0, 1)
    for burst in rest:
        for piece in burst:
            found.feed(piece)
    assert (found.received, found.pending) == (3 << 20, 0)


def test_more_than_the_window_allows_is_refused():
    found = assembler(SMALL)
    for number in range(2):
        found.feed(announced(number, 60_000))
    with pytest.raises(ProtocolError, match="60000 bytes were announced with 0 of credit left"):
        found.feed(announced(2, 60_000))


def test_more_messages_than_were_agreed_are_not_begun():
    found = assembler(SMALL)
    for number in range(4):
        found.feed(announced(number, 10))
    with pytest.raises(ProtocolError, match="more than 4 messages were announced at a time"):
        found.feed(announced(4, 10))


def test_nothing_is_allocated_for_what_nobody_wants(monkeypatch):
    monkeypatch.setattr(np, "empty", None)
    receiver = Everything(admits=False)
    assert put_together(frames(TensorSent((0,), (np.zeros(1 << 20),))), receiver=receiver) == []
    assert receiver.noted == [("announced", (1, True), 8 << 20)]


def test_what_is_abandoned_is_thrown_away_and_frees_the_window():
    found = assembler()
    one, *rest = frames(TensorSent((0,), (array(1 << 20),)), 1)
    found.feed(one)
    found.abandon((1, True))
    assert [found.feed(frame) for frame in rest] == [None] * len(rest)
    assert found.received == 1 << 20


def head(*values):
    message = Outgoing(Envelope(1, TensorSent(tuple(range(len(values))), values)), LIMITS)
    return message.head(None, message.nbytes)


def test_values_in_shared_memory_are_views_of_it_and_take_as_much_of_the_window_as_raw_bytes():
    found, memory = assembler(), array(100_032 + 200_000)
    message, nbytes = found.adopt(head(array(100_001), array(200_000)), memory)
    one, other = message.message.values
    assert (one == memory[:100_001]).all()
    assert (other == memory[100_032:300_032]).all()
    assert np.shares_memory(one, memory)
    assert nbytes == found.received == 300_001


def test_shared_memory_of_a_message_that_nobody_wants_is_thrown_away_and_frees_the_window():
    found = assembler(receiver=Everything(admits=False))
    assert found.adopt(head(array(1 << 20)), np.zeros(1 << 20, np.uint8)) == (None, 1 << 20)
    assert (found.received, found.pending) == (1 << 20, 0)


@pytest.mark.parametrize(
    ("first", "nbytes"),
    [
        (head(array(1 << 20)), (1 << 20) + 1),
        (head(array(1 << 20)), 100),
        (announced(1, 1 << 20, 1000), 1 << 20),
        (frame({"verb": "Part", "id": 1, "fields": [True], "follows": 100}), 100),
        (frame({"verb": "Drop", "id": 1, "fields": [True]}), 100),
    ],
)
def test_shared_memory_that_does_not_belong_to_the_frame_is_refused(first, nbytes):
    with pytest.raises(ProtocolError, match="bytes of shared memory came"):
        assembler().adopt(first, np.zeros(nbytes, np.uint8))


def test_no_shared_memory_comes_among_raw_frames():
    found = assembler()
    found.feed(head(array(1 << 20)))
    with pytest.raises(ProtocolError, match="do not belong"):
        found.adopt(head(array(1 << 20)), np.zeros(1 << 20, np.uint8))


@pytest.mark.parametrize(
    ("first", "inline"),
    [([], 0), ([0], 0), ([100, 0, INLINE - 100], INLINE), ([100, INLINE], 100), ([INLINE + 1], 0)],
)
@pytest.mark.parametrize("shared", [True, False])
def test_small_values_before_those_in_shared_memory_come_in_the_first_frame(first, inline, shared):
    values = tuple([array(size, seed) for seed, size in enumerate([*first, 1 << 20, 7])])
    message = Outgoing(Envelope(1, StepDone(values)), LIMITS)
    kept = [b"".join(buffers) for buffers in message.shared]
    assert sum(map(len, kept)) == sum(map(len, values)) - inline
    message.move([memoryview(each) for each in kept])
    head, *chunks = message.whole(None)
    assert inline < len(head) < inline + 200
    found = assembler()
    if shared:
        starts, nbytes = offsets(map(len, kept))
        memory = np.zeros(nbytes, np.uint8)
        for start, each in zip(starts, kept, strict=True):
            memory[start : start + len(each)] = np.frombuffer(each, np.uint8)
        arrived, follows = found.adopt(head, memory)
        assert follows == sum(map(len, kept))
        assert np.shares_memory(arrived.message.values[-2], memory)
    else:
        arrived = [found.feed(each) for each in (head, *chunks)][-1]
    assert plain(arrived.message.values) == plain(values)
    assert (found.received, found.pending) == (sum(map(len, values)), 0)


def test_what_the_sender_takes_back_frees_the_window():
    receiver = Everything()
    found = assembler(receiver=receiver)
    for piece in bursts(TensorSent((0,), (array(3 << 20),)))[0]:
        found.feed(piece)
    found.feed(*frames(Drop(True)))
    assert (found.received, found.pending) == (3 << 20, 0)
    assert receiver.noted[-1] == ("dropped", (1, True))


def test_without_memory_the_rest_arrives(monkeypatch):
    def none(*_):
        raise MemoryError

    receiver = Everything()
    found = assembler(receiver=receiver)
    large = frames(TensorSent((0,), (np.zeros(1 << 20),)), 1)
    small = frames(TensorSent((0,), (array(100),)), 2)
    with monkeypatch.context() as patch:
        patch.setattr(np, "empty", none)
        found.feed(large[0])
        found.feed(large[1])
    assert receiver.noted[-1] == ("out of memory", (1, True))
    (message,) = [message for frame in [*large[2:], *small] if (message := found.feed(frame)) is not None]
    assert message.number == 2


# Frames that lie


@pytest.mark.parametrize(
    ("sent", "text"),
    [
        ([*frames(Part())], "message 1 was not announced"),
        ([*frames(Drop())], "message 1 was not announced"),
        ([announced(1, 100), announced(1, 100)], "message 1 was announced twice"),
        ([announced(1, 100), *frames(Drop(False))], "message 1 was not announced"),
        ([*frames(TensorSent((0,), (array(20_000),)))[:1], b""], "a frame of 0 bytes came"),
        ([*frames(TensorSent((0,), (array(20_000),)))[:1], b"x" * 20_001], "up to 20000 were to follow"),
        ([*frames(TensorSent((0,), (array(200_000),)))[:1], b"x" * 70_000], "a frame of 70000 bytes came"),
    ],
)
def test_frames_that_do_not_fit_are_refused(sent, text):
    with pytest.raises(ProtocolError, match=text):
        put_together(sent)


def test_no_more_follows_than_is_missing():
    found = assembler()
    found.feed(announced(1, 100))
    with pytest.raises(ProtocolError, match="101 bytes are to follow where 100 are missing"):
        found.feed(frame({"verb": "Part", "id": 1, "fields": {"answer": True}, "follows": 101}))


def feed_all(data):
    """Feed frames until one is refused. Anything but a ProtocolError is a fault."""
    found = assembler(SMALL)
    with contextlib.suppress(ProtocolError):
        for piece in data:
            found.feed(piece)
    assert found.pending <= SMALL.requests


@given(st.lists(st.binary(max_size=200), max_size=8))
def test_arbitrary_frames_do_no_harm(data):
    feed_all(data)


@settings(max_examples=amount(60, 300))
@example(MESSAGES[0], 0, 1, b"\xff")
@given(st.sampled_from(MESSAGES), st.integers(0, 400), st.integers(0, 8), st.binary(max_size=8))
def test_messages_that_were_changed_on_the_way_do_no_harm(message, at, gone, put):
    (sent,) = frames(message)
    feed_all([sent[:at] + put + sent[at + gone :]])


LARGE = frames(StepDone((array(5000), np.array([b"x" * 3000] * 8, object))), limits=SMALL)


@given(st.lists(st.tuples(st.sampled_from(range(len(LARGE))), st.binary(max_size=3)), max_size=40))
def test_frames_in_any_order_do_no_harm(picked):
    feed_all([put or LARGE[index] for index, put in picked])


PLAIN = st.none() | st.integers(-(1 << 63), (1 << 64) - 1) | st.text(max_size=5) | st.binary(max_size=5)
ANY = st.recursive(PLAIN, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner))
VERB = st.sampled_from([record.number for record in VERBS.values()])


@given(ANY | st.builds(lambda verb, parts: [verb, *parts], VERB, st.lists(ANY, max_size=7)))
def test_arbitrary_headers_do_no_harm(header):
    feed_all([frame(msgpack.packb(header))])


def header_of(frame):
    return msgpack.unpackb(frame[4 : 4 + int.from_bytes(frame[:4], "little")])


@given(st.sampled_from([message for message in MESSAGES if dataclasses.fields(message)]), st.data())
def test_messages_with_other_fields_do_no_harm(message, data):
    header = header_of(frames(message)[0])
    _, _, fields, *_ = header
    fields[data.draw(st.sampled_from(range(len(fields))))] = data.draw(ANY)
    feed_all([frame(header)])
