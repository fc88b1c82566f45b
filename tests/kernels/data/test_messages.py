"""Messages of protocol buffers as plain classes: the bytes are those that TensorFlow 2.21 has written."""

import copy
import pickle

import numpy as np
import pytest

import aioflow as af
from aioflow.files import message_wire as wire

t = af.train
EXAMPLE = (
    "0a4c0a110a0161120c120a0a080000003f000000400a160a016212111a0f0a0d01feffffffffffffffff01ac020a070a016512021a000a050a01"
    "6e12000a0f0a0173120a0a080a0478ff220a0a00"
)
SEQUENCE = "0a0c0a0a0a016c12051a030a010312170a150a017812100a0c120a0a080000803f000000400a00"
CLUSTER = "0a160a027073120708011203623a32120708001203613a310a110a06776f726b6572120708031203633a33"
ORDERED = "0a160a027073120708001203613a31120708011203623a320a110a06776f726b6572120708031203633a33"
SERVER = "0a2b" + ORDERED + "1202707318012a04677270633007"
SAVER = (
    "0a0c736176652f436f6e73743a301219736176652f636f6e74726f6c5f646570656e64656e63793a301a10736176652f726573746f72655f616c"
    "6c20053500401c463802"
)

CONFIG = "0a070a03435055100232052a01304a00400152111a0b18ffffffffffffffffff015202200558dc0b62020803"
NODE = (
    "0a017912055768696c651a01781a025e7a2a070a0162120228002a160a04626f6479120e520c0a016612070a0154120230012a1b0a0673686170"
    "657312110a0f3a0d120b08ffffffffffffffffff012a190a017612144212081612041202080222080100000002000000"
)
EVENT = "09000000000000f83f10ffffffffffffffffff013a00"


def example():
    return t.Example(
        features=t.Features(
            feature={
                "b": t.Feature(int64_list=t.Int64List(value=[1, -2, 300])),
                "a": t.Feature(float_list=t.FloatList(value=[0.5, 2])),
                "s": t.Feature(bytes_list=t.BytesList(value=[b'x\xff"\n', b""])),
                "n": t.Feature(),
                "e": t.Feature(int64_list=t.Int64List()),
            }
        )
    )


def sequence():
    made = t.SequenceExample()
    made.context.feature["l"].int64_list.value.append(3)
    steps = made.feature_lists.feature_list["x"]
    steps.feature.add().float_list.value.extend(np.array([1.0, 2.0]))
    steps.feature.add()
    return made


def cluster():
    return t.ClusterSpec({"ps": ["a:1", "b:2"], "worker": {3: "c:3"}}).as_cluster_def()


def saver():
    return t.SaverDef("save/Const:0", "save/control_dependency:0", "save/restore_all", 5, False, 10000.0, t.SaverDef.V2)


def config():
    made = af.ConfigProto(device_count={"CPU": 2}, gpu_options={"visible_device_list": "0"}, log_device_placement=True)
    made.operation_timeout_in_ms = 1500
    made.graph_options.optimizer_options.opt_level = af.OptimizerOptions.L0
    made.graph_options.rewrite_options.memory_optimization = 5
    made.gpu_options.experimental.use_unified_memory = False
    made.session_inter_op_thread_pool.add(num_threads=3)
    return made


def node():
    made = af.NodeDef(name="y", op="While", input=["x", "^z"])
    made.attr["body"].func.name = "f"
    made.attr["body"].func.attr["T"].type = 1
    made.attr["shapes"].list.shape.add().dim.add(size=-1)
    made.attr["v"].tensor.ParseFromString(af.make_tensor_proto([1, 2], af.uint32))
    made.attr["b"].b = False
    return made


def event():
    made = af.Event(wall_time=1.5, step=-1, file_version="gone")
    made.session_log.status = af.SessionLog.STATUS_UNSPECIFIED
    return made


MADE = {
    "config": (config, CONFIG),
    "node": (node, NODE),
    "event": (event, EVENT),
    "example": (example, EXAMPLE),
    "sequence": (sequence, SEQUENCE),
    "cluster": (cluster, ORDERED),
    "server": (lambda: t.ServerDef(cluster(), "ps", 1, "grpc", 7), SERVER),
    "saver": (saver, SAVER),
}


@pytest.mark.parametrize("name", MADE)
def test_a_message_has_tensorflows_bytes_and_comes_back_from_them(name):
    make, wanted = MADE[name]
    made = make()
    assert made.SerializeToString().hex() == wanted
    assert made.ByteSize() == len(wanted) // 2
    again = type(made).FromString(bytes.fromhex(wanted))
    assert again == made
    assert str(again) == str(made)
    assert copy.deepcopy(again) == pickle.loads(pickle.dumps(again)) == made
    other = type(made)()
    assert other != made
    assert other.ParseFromString(bytes.fromhex(wanted)) == len(wanted) // 2
    assert other == made
    other.Clear()
    other.CopyFrom(made)
    assert other == made


def test_maps_may_come_in_any_order_and_unknown_fields_are_skipped():
    assert t.ClusterDef.FromString(bytes.fromhex(CLUSTER)) == cluster()
    later = t.Int64List.FromString(b"\xfa\x01\x03abc\x0a\x02\x01\x02\x08\x03\xfd\x01abcd")
    assert later.value == [1, 2, 3]  # packed numbers, and one by one
    assert t.ClusterSpec(cluster()).as_dict() == {"ps": ["a:1", "b:2"], "worker": {3: "c:3"}}


def test_a_message_prints_as_protocol_buffers_do():
    assert str(saver()).splitlines()[3:] == ["max_to_keep: 5", "keep_checkpoint_every_n_hours: 10000", "version: V2"]
    assert '        value: "x\\377\\"\\n"\n        value: ""\n' in str(example())
    assert repr(t.Feature(float_list=t.FloatList([1.5]))) == "Feature(float_list=FloatList(value=[1.5]))"


def test_of_a_group_of_fields_the_last_that_is_set_counts():
    feature = t.Feature()
    assert feature.WhichOneof("kind") is None
    feature.int64_list.value.append(1)
    assert (feature.WhichOneof("kind"), feature.HasField("float_list")) == ("int64_list", False)
    feature.float_list = t.FloatList([2.0])
    assert (feature.WhichOneof("kind"), feature.int64_list.value) == ("float_list", [])
    both = t.Feature(int64_list=t.Int64List([1])).SerializeToString() + feature.SerializeToString()
    assert t.Feature.FromString(both) == feature
    feature.bytes_list.value.append(b"x")  # in place: then it has two
    with pytest.raises(ValueError, match="one of bytes_list, float_list, int64_list, not bytes_list and float_list"):
        feature.SerializeToString()


def test_a_field_that_is_set_in_place_makes_the_messages_around_it_present():
    made = af.ConfigProto()
    options = made.graph_options.rewrite_options
    assert not made.HasField("graph_options")
    options.disable_meta_optimizer = False
    assert made.HasField("graph_options")
    assert made.graph_options.HasField("rewrite_options")
    made.ClearField("graph_options")
    options.disable_meta_optimizer = True  # of a message that is no part of it any more
    assert made == af.ConfigProto()
    made.gpu_options.CopyFrom(af.GPUOptions())
    assert made.SerializeToString() == b"2\x00"
    value = af.AttrValue(i=3)
    value.func.name = "f"
    assert (value.WhichOneof("value"), value.i) == ("func", 0)


def test_enums_have_names():
    options = af.OptimizerOptions(global_jit_level="ON_2", opt_level=af.OptimizerOptions.Level.L0)
    assert (options.global_jit_level, options.opt_level) == (2, -1)
    assert str(options) == "opt_level: L0\nglobal_jit_level: ON_2\n"
    assert str(af.OptimizerOptions(global_jit_level=7)) == "global_jit_level: 7\n"
    level = af.LogMessage.Level
    assert (level.Name(30), level.Value("WARN"), af.LogMessage.WARN, level.WARN) == ("WARN", 30, 30, 30)
    assert dict(level.items()) == dict(zip(level.keys(), level.values(), strict=True))
    assert [*level] == level.keys()


def test_numbers_print_with_the_digits_that_they_need():
    value, written = af.Summary.Value, [0.1, 3.0, 1e15, 123456789.0, 1e-4, -0.0]
    assert [str(value(simple_value=x)).split()[1] for x in written] == [
        "0.1",
        "3",
        "1e+15",
        "123456792",
        "0.0001",
        "-0",
    ]
    assert [str(af.Event(wall_time=x)).split()[1] for x in written] == [
        "0.1",
        "3",
        "1e+15",
        "123456789",
        "0.0001",
        "-0",
    ]
    assert str(af.SessionLog(msg="é\x7f'")) == 'msg: "é\\177\\\'"\n'


def test_merging_adds_lists_and_entries():
    one = t.Features({"a": t.Feature(int64_list=t.Int64List([1]))})
    one.MergeFrom(t.Features({"b": t.Feature(int64_list=t.Int64List([2]))}))
    assert sorted(one.feature) == ["a", "b"]
    numbers = t.Int64List([1])
    numbers.MergeFrom(t.Int64List([2]))
    assert numbers.value == [1, 2]


def deep(levels):
    """An attribute whose function has an attribute whose function has one, and so on."""
    data = b""
    for _ in range(levels):
        entry = b"\x12" + wire.varint(len(data)) + data
        function = b"\x12" + wire.varint(len(entry)) + entry
        data = b"\x52" + wire.varint(len(function)) + function
    return data


def test_messages_of_their_own_kind_may_be_deep():
    assert af.AttrValue.FromString(deep(40)).SerializeToString()


BAD = {
    "an unknown field": (lambda: setattr(t.Feature(), "foo", 1), AttributeError, "a Feature has no field 'foo', but"),
    "a number that is too large": (
        lambda: t.Int64List([2**63]).SerializeToString(), ValueError, "Int64List.value: 9223372036854775808 does not",
    ),
    "a float among integers": (lambda: t.Int64List([0.5]).SerializeToString(), TypeError, "Int64List.value"),
    "text among bytes": (lambda: t.BytesList(["a"]).SerializeToString(), TypeError, "'a' is no bytes"),
    "a number for a list": (lambda: t.Int64List(7), TypeError, "Int64List.value"),
    "text for a list": (lambda: t.BytesList(b"abc"), TypeError, "is a list, not b'abc'"),
    "a number for a message": (lambda: t.Example(features=3), TypeError, "Example.features is a Features, not 3"),
    "another message": (lambda: t.Feature().CopyFrom(t.Example()), TypeError, "of another one"),
    "a wrong value of a map": (lambda: t.Features({"a": 3}).SerializeToString(), TypeError, "3 is no Feature"),
    "cut bytes": (lambda: t.Example.FromString(b"\x0a\x05"), ValueError, "these 2 bytes are no Example: 5 bytes"),
    "another kind": (lambda: t.Example.FromString(b"\x08\x05"), ValueError, "kind 0 on the wire"),
    "cut floats": (lambda: t.FloatList.FromString(b"\x0a\x03abc"), ValueError, "3 bytes at byte 2 are no numbers"),
    "text that is none": (lambda: t.JobDef.FromString(b"\x0a\x01\xff"), ValueError, "no JobDef"),
    "no bytes": (lambda: t.JobDef.FromString("a"), TypeError, "read from bytes"),
    "two jobs of one name": (
        lambda: t.ClusterSpec(t.ClusterDef([t.JobDef("a", {0: "x:1"}), t.JobDef("a", {})])), ValueError, "two jobs 'a'",
    ),
    "an unknown field of a new message": (lambda: af.NodeDef(nme="x"), ValueError, "a NodeDef has no field 'nme', but"),
    "text for a number": (lambda: af.NodeDef(name=3), TypeError, "NodeDef.name: 3 is no string"),
    "a number with a sign": (
        lambda: af.AttrValue.ListValue(tensor=[{"uint32_val": [-1]}]).SerializeToString(), ValueError,
        "-1 does not fit into 32 bits without a sign",
    ),
    "a number for 32 bits": (lambda: af.ConfigProto(placement_period=1 << 31), ValueError, "fit into 32 bits"),
    "text for a float": (lambda: af.AttrValue(f="1"), TypeError, "AttrValue.f: '1' is no number"),
    "an unknown name of an enum": (
        lambda: af.OptimizerOptions(opt_level="L9"), ValueError, "Level has no value 'L9', but L1, L0",
    ),
    "an unknown number of an enum": (lambda: af.LogMessage.Level.Name(1), ValueError, "Level has no value 1, but"),
    "an unknown attribute of an enum": (lambda: af.LogMessage.Level.LOUD, AttributeError, "'LOUD' is no value"),
    "messages that are too deep": (lambda: af.AttrValue.FromString(deep(101)), ValueError, "more than 100 deep"),
    "no such group": (lambda: t.Feature().WhichOneof("sort"), ValueError, "no group 'sort'"),
}  # fmt: skip


@pytest.mark.parametrize("what", BAD)
@pytest.mark.whole
def test_what_is_no_message_is_refused_by_name(what):
    build, error, text = BAD[what]
    with pytest.raises(error, match=text):
        build()


def test_examples_are_those_of_make_example_and_parse_example():
    made = example()
    del made.features.feature["n"], made.features.feature["e"]
    assert made.SerializeToString() == af.io.make_example({"a": [0.5, 2.0], "b": [1, -2, 300], "s": [b'x\xff"\n', b""]})
