"""A graph of TensorFlow as plain data: nodes and functions, checked, with attributes as they are in the file."""

import dataclasses
from collections.abc import Mapping
from typing import NamedTuple

from aioflow.tensorflow_files.messages import AttrValue


class Source(NamedTuple):
    """An output of a node.

    Attributes:
        node: the name of the node.
        place: the number of the output, among all of the node or among those of one result.
        result: inside a function, the name of the result that the output belongs to.
    """

    node: str
    place: int = 0
    result: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Node:
    """One use of an op of TensorFlow.

    Attributes:
        name: its name.
        op: the name of the op, or of a function.
        inputs: the outputs of other nodes that it takes.
        controls: the names of the nodes that it waits for.
        attributes: its attributes.
    """

    name: str
    op: str
    inputs: tuple[Source, ...]
    controls: tuple[str, ...]
    attributes: Mapping[str, AttrValue]

    @property
    def before(self) -> list[str]:
        """The names of the nodes that it needs."""
        return [*dict.fromkeys([*[source.node for source in self.inputs], *self.controls])]

    def functions(self) -> list[str]:
        """The names of the functions that it may call."""
        found = [self.op]
        for value in self.attributes.values():
            if value.HasField("func"):
                found.append(value.func.name)
            elif value.HasField("list"):
                found += [each.name for each in value.list.func]
        return found


Nodes = Mapping[str, Node]
"""Nodes by their names."""


@dataclasses.dataclass(frozen=True, slots=True)
class Function:
    """A function that nodes call.

    Attributes:
        name: its name.
        arguments: the names of its arguments.
        nodes: its nodes.
        results: where its results come from.
        controls: the nodes that must run in every call.
    """

    name: str
    arguments: tuple[str, ...]
    nodes: Nodes
    results: tuple[Source, ...]
    controls: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class GraphFile:
    """A graph and the functions that it calls.

    Attributes:
        nodes: its nodes.
        functions: the functions by name.
    """

    nodes: Nodes
    functions: Mapping[str, Function]
