"""A message takes memory in proportion to its bytes, for any claimed contents."""

import dataclasses
import itertools
import tracemalloc

import msgpack
import pytest

import aioflow as af
from aioflow.graph.graphdef import GraphDef
from aioflow.net.wire.codec import ProtocolError
from aioflow.net.wire.framing import Assembler
from aioflow.net.wire.limits import STANDARD
from aioflow.net.wire.values import _FREE as FREE
from aioflow.net.worker.introspection import unpack_placement
from aioflow.net.worker.registration import registered
from aioflow.tensors.plain_data import unpack
from tests.support import net_frames
from tests.support.scale import some

MOST = 1 << 20
NOTHING = ["array", "float32", [0], 0]


class Everything:
    """A receiver that wants each message."""

    def admits(self, announced, key):
        return True

    def out_of_memory(self, announced, key):
        raise AssertionError

    def dropped(self, key):
        raise AssertionError


def frame(descriptors, data=b"", verb="PushTensors", fields=None):
    fields = {"step": 3, "keys": ["k"] * len(descriptors), "values": list(range(len(descriptors)))} | (fields or {})
    return net_frames.frame({"verb": verb, "id": 9, "fields": fields, "values": descriptors}, data)


def a_list(structure, data=b""):
    packed = msgpack.packb(structure)
    return ["list", len(packed), len(data)], packed + data


def lists_in_lists(deep, wide):
    """Lists in lists, `wide` in each; the innermost have the most slots that a list may have."""
    descriptor, data = a_list([MOST, [[0, MOST, ["cleared"]]]])
    for _ in range(deep):
        size = len(data) + -len(data) % 64
        runs = [[place, 1, descriptor] for place in range(wide)]
        descriptor, data = a_list([wide, runs], data.ljust(size, b"\0") * wide)
    return frame([descriptor], data)


def from_list(structure, data=b"", times=1):
    descriptor, packed = a_list(structure, data)
    return frame([descriptor] * times, packed * times)


HOSTILE = {
    "a run of a million empty tensors": from_list([MOST, [[0, MOST, ["array", "float32", [MOST, 0], 0]]]]),
    "ten of them": from_list([MOST, [[0, MOST, ["array", "float32", [MOST, 0], 0]]]], times=10),
    "a million cleared slots": from_list([MOST, [[0, MOST, ["cleared"]]]]),
    "a hundred times a million cleared slots": from_list([MOST, [[0, MOST, ["cleared"]]]], times=100),
    "a slot far out, a hundred times": from_list([MOST, [[MOST - 1, 1, NOTHING]]], times=100),
    "runs of few slots": from_list([MOST, [[64 * n, 64, ["array", "int8", [64, 0], 0]] for n in range(500)]]),
    "lists in lists": lists_in_lists(3, 10),
    "lists in lists, deeper": lists_in_lists(6, 3),
    "a structure of empty lists": from_list([MOST, [[]] * 15_000]),
    "many empty arrays": frame([NOTHING] * 20_000),
    "many empty strings": frame([["strings", [0, 1 << 40], 0]] * 5_000),
    "a header of empty lists": frame([], fields={"keys": [[]] * 900_000}),
    "a header of nested lists": frame([], fields={"keys": b""})[:4] + b"\xdd\x00\x0f\xff\xff" * 200_000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_message_takes_memory_in_proportion_to_its_bytes(name):
    data = HOSTILE[name]
    kept = []

    def read():
        try:
            kept.append(Assembler(STANDARD, Everything()).feed(data))
        except ProtocolError as error:
            kept.append(str(error))

    assert peak(read) < 2 * FREE + 300 * len(data)
    assert kept


def peak(function):
    """The most memory that a call takes, in bytes."""
    tracemalloc.start()
    try:
        function()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def refused(function, data):
    with pytest.raises(ValueError):  # noqa: PT011 - the readers have different messages
        function(data)


READERS = {
    "unpack": unpack,
    "GraphDef": GraphDef.from_msgpack,
    "placement": unpack_placement,
    "RegisterGraph": lambda data: registered(data, {}),
}
PACKED = {
    "empty lists": msgpack.packb([[]] * 1_000_000),
    "empty maps": msgpack.packb([{}] * 1_000_000),
    "lists of one": msgpack.packb([[[[[[[[]]]]]]]] * 200_000),
    "maps of one": msgpack.packb([{"": {}}] * 500_000),
}


@pytest.mark.parametrize(("reader", "name"), some(itertools.product(READERS, PACKED), 3))
def test_plain_data_takes_memory_in_proportion_to_its_bytes(reader, name):
    data = PACKED[name]
    assert peak(lambda: refused(READERS[reader], data)) < 60 * len(data)


def test_harmless_plain_data_is_read():
    data = {"nodes": [{"name": str(n), "in": [[n, 0]], "attr": {"shape": {"tuple": []}}} for n in range(5_000)]}
    assert unpack(msgpack.packb(data)) == data


SPLITS = {
    "split": lambda count: af.split(af.placeholder(af.float32, None), count),
    "split of sizes": lambda count: af.split(af.placeholder(af.float32, None), af.ones([count], af.int32), num=count),
    "unstack": lambda count: af.unstack(af.placeholder(af.float32, None), count),
    "unstack of a size": lambda count: af.unstack(af.fill([count], 1.0)),
    "dynamic_partition": lambda count: af.dynamic_partition(af.placeholder(af.float32, None), [0], count),
}


@pytest.mark.parametrize("name", SPLITS)
def test_an_operation_has_no_more_outputs_than_its_attributes_may_ask_for(name):
    with af.Graph().as_default():
        tracemalloc.start()
        try:
            with pytest.raises(ValueError, match="an operation has at most 65536 outputs, not 1073741824"):
                SPLITS[name](1 << 30)
            assert tracemalloc.get_traced_memory()[1] < 1 << 20
        finally:
            tracemalloc.stop()


def test_the_operations_of_a_graph_have_no_more_outputs_than_memory_takes():
    with af.Graph().as_default() as graph:
        x = af.placeholder(af.float32, None)
        for _ in range(6):
            af.split(x, 7)
    told = graph.as_graph_def()
    nodes = [dataclasses.replace(n, attr={**n.attr, "num": 1 << 16}) if n.op == "split" else n for n in told.node]
    with af.Graph().as_default(), pytest.raises(ValueError, match="more than 262144 outputs"):
        af.import_graph_def(GraphDef(nodes))
