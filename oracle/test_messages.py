"""Messages: TensorFlow's, filled at random from their descriptors, are read, printed and written again as aioflow's."""

import random
from collections.abc import Callable, Container
from typing import Any

import pytest

import aioflow as af
from oracle.both import tensorflow

NAMES = [
    "AttrValue", "ConfigProto", "Event", "GPUOptions", "GraphOptions", "HistogramProto", "LogMessage", "NameAttrList",
    "NodeDef", "OptimizerOptions", "SessionLog", "Summary", "SummaryMetadata", "TensorInfo",
    "summary.SummaryDescription", "summary.TaggedRunMetadata", "train.ClusterDef", "train.Example", "train.SaverDef",
    "train.SequenceExample",
]  # fmt: skip
SCALARS: dict[str, Callable[[random.Random], Any]] = {
    "string": lambda draw: draw.choice(["", "a", "é\n\"'"]), "bytes": lambda draw: draw.randbytes(3),
    "bool": lambda draw: draw.random() < 0.7, "float": lambda draw: draw.choice([0.0, 0.1, -1.5, 1e30, 3.0]),
    "double": lambda draw: draw.choice([0.0, 0.1, -1.5, 1e300, 3.0]),
    "int32": lambda draw: draw.choice([0, 1, -1, 2**31 - 1, -(2**31)]),
    "int64": lambda draw: draw.choice([0, 1, -1, 2**63 - 1, -(2**63)]),
    "uint32": lambda draw: draw.choice([0, 1, 2**32 - 1]), "uint64": lambda draw: draw.choice([0, 1, 2**64 - 1]),
}  # fmt: skip
SKIPPED: dict[str, set[str]] = {"TensorInfo": {"coo_sparse", "composite_tensor"}}
"""Fields that a class says that it has not."""
WITH_MAPS = {
    "AttrValue", "ConfigProto", "GraphOptions", "NameAttrList", "NodeDef", "train.ClusterDef", "train.Example",
    "train.SequenceExample",
}  # fmt: skip


def found(module: Any, name: str) -> Any:
    for part in name.split("."):
        module = getattr(module, part)
    return module


def kind_of(field: Any) -> str:
    kinds = {value: name[5:].lower() for name, value in vars(type(field)).items() if name.startswith("TYPE_")}
    return kinds[field.type]


def fill(message: Any, draw: random.Random, depth: int = 0, skipped: Container[str] = ()) -> None:
    """Set about half of the fields; deeper messages have fewer."""
    for field in message.DESCRIPTOR.fields:
        if draw.random() < 0.5 + 0.1 * depth or field.name in skipped:
            continue
        into = getattr(message, field.name)
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            fill_map(into, field.message_type.fields_by_name, draw, depth)
        elif field.message_type is not None:
            for each in [into.add() for _ in range(2)] if field.is_repeated else [into]:
                each.SetInParent()
                fill(each, draw, depth + 1)
        elif field.is_repeated:
            into.extend([scalar(field, draw) for _ in range(3)])
        else:
            setattr(message, field.name, scalar(field, draw))


def fill_map(into: Any, fields: Any, draw: random.Random, depth: int) -> None:
    for _ in range(2):
        key = scalar(fields["key"], draw)
        if fields["value"].message_type is None:
            into[key] = scalar(fields["value"], draw)
        else:
            fill(into[key], draw, depth + 1)


def scalar(field: Any, draw: random.Random) -> Any:
    if field.enum_type is not None:
        return draw.choice(field.enum_type.values).number
    return SCALARS[kind_of(field)](draw)


def lines(message: Any) -> list[str]:
    """The text of a message, without the kinds of inferred types, whose names aioflow does not have."""
    return [line for line in str(message).splitlines() if "type_id:" not in line]


@pytest.mark.parametrize("name", NAMES)
def test_messages_have_the_same_bytes_and_text(name: str) -> None:
    for seed in range(60):
        theirs = found(tensorflow(), name)()
        fill(theirs, random.Random(seed), skipped=SKIPPED.get(name, ()))
        data = theirs.SerializeToString(deterministic=True)
        ours = found(af, name).FromString(data)
        again = type(theirs).FromString(ours.SerializeToString())
        assert again.SerializeToString(deterministic=True) == data, seed
        assert ours.ByteSize() == len(data)
        assert sorted(lines(ours)) == sorted(lines(theirs)), seed
        if name not in WITH_MAPS:  # whose entries have no order
            assert (ours.SerializeToString(), str(ours)) == (data, str(theirs)), seed


@pytest.mark.parametrize("name", NAMES)
def test_messages_have_the_same_fields_and_values_of_enums(name: str) -> None:
    theirs, ours = found(tensorflow(), name), found(af, name)
    fields = {field.name: field.number for field in theirs.DESCRIPTOR.fields}
    for missing in SKIPPED.get(name, ()):
        del fields[missing]
    assert {name: field.number for name, field in ours.FIELDS.items()} == fields
    for enum in theirs.DESCRIPTOR.enum_types:
        assert dict(getattr(ours, enum.name).items()) == {value.name: value.number for value in enum.values}
        assert {value.name: getattr(ours, value.name) for value in enum.values} == dict(
            getattr(ours, enum.name).items()
        )
