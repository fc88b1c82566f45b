"""A graph, and the devices of its operations."""

import dataclasses


@dataclasses.dataclass(frozen=True, slots=True)
class GraphNode:
    """An operation.

    Attributes:
        name: its name.
        op_type: its type.
        inputs: the numbers of the operations whose outputs it takes, in the order of its inputs.
        controls: the numbers of the operations that it runs after.
        outputs: the dtype and shape of each output.
        device: the device that the program asks for; empty for any.
        line: the user's line that built it.
    """

    name: str
    op_type: str
    inputs: tuple[int, ...]
    controls: tuple[int, ...]
    outputs: tuple[str, ...]
    device: str
    line: str


@dataclasses.dataclass(frozen=True, slots=True)
class Graph:
    """A graph. Its nodes are listed such that inputs come before the nodes that take them, except in loops."""

    version: int
    nodes: tuple[GraphNode, ...]
    left_out: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class GraphSummary:
    """Tells a page that there is a graph, which the page can ask for."""

    version: int
    count: int


@dataclasses.dataclass(frozen=True, slots=True)
class PlacedNode:
    """The device of an operation in a plan, and the reason for it."""

    name: str
    device: str
    reason: str


@dataclasses.dataclass(frozen=True, slots=True)
class PlacedCall:
    """The placement of the call that was traced last."""

    nodes: tuple[PlacedNode, ...]
