"""What PROTOCOL.md says: its examples are frames, and its tables list all messages."""

import re
from pathlib import Path

import numpy as np
import pytest

import aioflow.net.wire
from aioflow.net.transport.monitor_process import ACCEPT, DIAL, Connection
from aioflow.net.wire.codec import announcement
from aioflow.net.wire.control_verbs import Cancel, Credit, Failure, Hello, Ping, Reply, Welcome
from aioflow.net.wire.limits import KIB, Limits
from aioflow.net.wire.master_verbs import CloseSession, RunStep, StepDone
from aioflow.net.wire.schema import ANSWERS, VERBS
from aioflow.net.wire.worker_verbs import PushTensors, RecvTensor, TensorSent
from tests.support.net_frames import LIMITS, frames, put_together
from tests.support.net_samples import plain

TEXT = (Path(aioflow.net.wire.__file__).parent / "PROTOCOL.md").read_text()
BLOCKS = dict(re.findall(r"^```hex (\w+)\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL))
SESSION = "000102030405060708090a0b0c0d0e0f"
PS, WORKER = "/job:ps/replica:0/task:0", "/job:worker/replica:0/task:1"
EXAMPLES = {
    "close": (CloseSession(SESSION), 7, {"left": 2.5}),
    "reply": (Reply(), 7, {}),
    "failure": (Failure("not_found", "there is no such session", task=PS), 7, {}),
    "cancel": (Cancel(), 7, {}),
    "run": (RunStep(SESSION, {"x:0": np.array([[1, 2], [3, 4]], np.float32)}, ("y:0",)), 8, {}),
    "done": (StepDone((np.float32(10),)), 8, {}),
    "recv": (RecvTensor(3, 47, ((5,), (6,))), 9, {}),
    "large": (TensorSent((1,), (np.zeros(20000, np.uint8),)), 9, {"limits": Limits(chunk=8 * KIB)}),
    "push": (PushTensors(3, 47, ((7, 2),), (np.float32(10),)), 10, {}),
    "hello": (Hello("control", (3,), 31, WORKER, PS, "c0ffee"), 0, {}),
    "welcome": (Welcome(3, 47, PS, "c0ffee", SESSION), 0, {}),
    "resume": (Hello("bulk", (3,), 31, WORKER, PS, "c0ffee", SESSION, received=70_000), 0, {}),
    "resumed": (Welcome(3, 47, PS, "c0ffee", SESSION, received=1234), 0, {}),
    "ping": (Ping(12.5), 0, {}),
    "credit": (Credit(8 << 20), 0, {}),
}


def written(name):
    """The frames of an example, as the text has them."""
    found = []
    for frame in BLOCKS[name].split("\n\n"):
        zeros = re.fullmatch(r"00 \* (\d+)\s*", frame)
        found.append(bytes(int(zeros[1])) if zeros else bytes.fromhex(frame))
    return found


def test_every_example_is_tested():
    assert set(BLOCKS) == set(EXAMPLES)


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_is_what_is_sent(name):
    message, number, how = EXAMPLES[name]
    assert frames(message, number, **how) == written(name)


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_is_understood(name):
    message, number, how = EXAMPLES[name]
    (found,) = put_together(written(name), how.get("limits", LIMITS))
    assert (plain(found.message), found.number, found.left) == (plain(message), number, how.get("left"))


def test_all_messages_are_listed_with_their_fields():
    rows = re.findall(r"^\| (\d+) \| `(\w+)` \| (.*?) \| *(?:`(\w+)` )?\|$", TEXT, re.MULTILINE)
    listed = {name: (int(number), re.findall(r"`(\w+)`(\??)", fields), answer) for number, name, fields, answer in rows}
    wanted = {
        name: (
            record.number,
            [(field.name, "" if field.needed else "?") for field in record.fields.values()],
            ANSWERS[record.cls].__name__ if record.cls in ANSWERS else "",
        )
        for name, record in VERBS.items()
    }
    assert listed == wanted


def test_the_documented_line_of_a_monitor_is_sent_and_read():
    (line,) = re.findall(r"^```monitor\n(.*?)\n^```$", TEXT, re.MULTILINE)
    here, there = [Connection(role, SESSION, "0f" * 16, 0.5, None) for role in (ACCEPT, DIAL)]
    assert here.line(("busy", 12.25, b"unique".hex())) == line
    assert there.read(line) == ("busy", "12.25", b"unique".hex())


def test_the_header_that_is_taken_apart_is_that_of_the_example():
    found = announcement(written("close")[0], LIMITS)
    assert (found.record.name, found.header.id, found.header.fields, found.header.left) == (
        "CloseSession", 7, [SESSION], 2.5,
    )  # fmt: skip
