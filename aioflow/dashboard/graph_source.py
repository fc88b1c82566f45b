"""The graph of a session as a message, and the placement of the calls that were traced."""

import asyncio
from collections.abc import Sequence
from typing import Final

from aioflow import errors
from aioflow.dashboard.board import Board
from aioflow.dashboard.messages import Graph, GraphNode, PlacedCall, PlacedNode, Step, clip
from aioflow.graph.graph import Graph as AnyGraph
from aioflow.graph.operation import Operation, Tensor, describe_line
from aioflow.session import Session

_EVERY: Final = 2.0
MOST: Final = 20_000
"""Operations that are shown."""
_PLACED: Final = 5000
"""Operations of a graph whose calls are placed once more for the page."""


class GraphSource:
    """Looks at the graph of a session."""

    def __init__(self, session: Session) -> None:
        self._session: Final = session

    async def watch(self, board: Board) -> None:
        """Post the graph when it has changed, and where the plan of the last traced call puts its operations."""
        graph, version, placed = self._session.graph, -1, None
        while not self._session.closed:
            if graph.version != version:
                version = graph.version
                board.post(await asyncio.to_thread(graph_message, graph))
            step = board.steps[max(board.steps)] if board.steps else None
            if step is not None and version <= _PLACED and placed != (call := (version, step.fetches, step.feeds)):
                placed = call
                await self._place(board, step)
            await asyncio.sleep(_EVERY)

    async def _place(self, board: Board, step: Step) -> None:
        """Post the placement of a traced call."""
        try:
            found = await self._session.placement(list(step.fetches), step.feeds)
        except (errors.OpError, ValueError):  # a name was too long, or the master is lost
            return
        nodes = [PlacedNode(clip(each.name), each.device, clip(each.reason)) for each in found.nodes]
        board.post(PlacedCall(tuple(nodes)))


def graph_message(graph: AnyGraph) -> Graph:
    """The message of a graph."""
    version, operations = graph.version, graph.get_operations()
    shown = operations[:MOST]
    numbers = {operation: number for number, operation in enumerate(shown)}
    nodes = [_node(operation, numbers) for operation in shown]
    return Graph(version, tuple(nodes), len(operations) - len(shown))


def _node(operation: Operation, numbers: dict[Operation, int]) -> GraphNode:
    return GraphNode(
        clip(operation.name), operation.type, _known(operation.inputs, numbers),
        tuple([numbers[each] for each in operation.control_inputs if each in numbers]),
        tuple([f"{tensor.dtype.name} {tensor.shape}" for tensor in operation.outputs]),
        clip(operation.device or ""), clip(describe_line(operation)),
    )  # fmt: skip


def _known(tensors: Sequence[Tensor], numbers: dict[Operation, int]) -> tuple[int, ...]:
    return tuple([numbers[tensor.op] for tensor in tensors if tensor.op in numbers])
