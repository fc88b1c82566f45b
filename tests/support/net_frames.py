"""Messages as frames, without a channel between."""

import msgpack

from aioflow.net.wire.codec import Envelope, Header
from aioflow.net.wire.framing import Assembler, Outgoing
from aioflow.net.wire.limits import Limits
from aioflow.net.wire.schema import VERBS

LIMITS = Limits(chunk=64 << 10)


class Everything:
    """Admits all messages, and notes what else happens."""

    def __init__(self, admits=True):
        self.noted = []
        self._admits = admits

    def admits(self, announced, key):
        self.noted.append(("announced", key, announced.nbytes))
        return self._admits

    def out_of_memory(self, announced, key):
        self.noted.append(("out of memory", key))

    def dropped(self, key):
        self.noted.append(("dropped", key))


def frame(header, behind=b""):
    """A frame with that header, as a peer of another mind could send it. A map of its parts stands for the list."""
    packed = header if isinstance(header, bytes) else msgpack.packb(listed(header) if type(header) is dict else header)
    return len(packed).to_bytes(4, "little") + packed + behind


def listed(header):
    """The parts of a header in order, where the map has the names of the class and of its fields."""
    found = Header(**({"verb": "", "id": 0, "fields": [], "values": []} | header))
    record = VERBS.get(found.verb)
    fields = found.fields
    if type(fields) is dict:
        assert fields.keys() <= record.fields.keys()
        fields = [fields.get(name) for name in record.fields]
    elif "fields" not in header and record is not None:
        fields = [None for _ in record.fields]
    return [*found._replace(verb=found.verb if record is None else record.number, fields=fields)]


def announced(number, nbytes, follows=0):
    """The first frame of an answer whose bytes are to come later."""
    fields = {"places": [0], "values": [0]}
    header = {"verb": "TensorSent", "id": number, "fields": fields, "values": [["bytes", nbytes]]}
    return frame(header | {"follows": follows})


def bursts(message, number=1, limits=LIMITS, left=None, trace=""):
    """The frames of a message, a burst at a time, as they arrive."""
    outgoing = Outgoing(Envelope(number, message, None, trace), limits)
    return [[bytes(frame) for frame in burst] for burst in outgoing.bursts(left)]


def frames(message, number=1, limits=LIMITS, left=None, trace=""):
    return [frame for burst in bursts(message, number, limits, left, trace) for frame in burst]


def assembler(limits=LIMITS, receiver=None):
    return Assembler(limits, receiver or Everything())


def put_together(frames, limits=LIMITS, receiver=None):
    """The messages that these frames make."""
    found = assembler(limits, receiver)
    return [message for frame in frames if (message := found.feed(frame)) is not None]
