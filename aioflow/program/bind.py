"""Kernels chosen and bound: from the nodes of a plan to the statements of a region."""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from aioflow import errors
from aioflow.devices.gpu import Gpu, on_stream
from aioflow.devices.memory import account_results
from aioflow.graph.operation import describe_line
from aioflow.kernels.context import Context
from aioflow.plan.allocation import guarded
from aioflow.plan.passes.flow import Block, Node, Value
from aioflow.plan.passes.transfers import shares_memory
from aioflow.program.blocks import Code, Statement, Structured
from aioflow.program.fuse import Bound
from aioflow.tensors.dtypes import Array, DeviceKind


class Binder:
    """Binds nodes for one device.

    The results of kernels are tracked if the device tracks memory.

    Attributes:
        literals: the values known before a step: constants and handles, if they are looked up.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        device = context.device
        self._device, self._ledger = (None, None) if device is None else (device.name, device.accounts)
        self.literals: dict[Value, Array] = {}

    def find_literals(self, nodes: Iterable[Node]) -> None:
        """Look for values known before any step among these nodes, and inside branches and loops."""
        for node in nodes:
            for block in node.blocks:
                self.find_literals(block.flow.nodes)
            if (node.definition.name == "constant" or node.definition.handle) and not node.controls:
                self.literals[Value(node, 0)] = self._literal(node)

    def _literal(self, node: Node) -> Array:
        """Return the value of a node without inputs. The error of a handle names its line."""
        bound = self._kernel(node)
        try:
            return bound.call(self._context) if bound.kernel.context else bound.call()
        except errors.OpError as error:
            raise error.at(
                node.name, node.definition.name, line=describe_line(node.operation), device=self._device, shapes=()
            ) from None

    def bind(self, node: Node) -> Statement:
        """Return the statement that runs the node. UnimplementedError if it has no kernel."""
        return (
            Structured(node, tuple([self._code(block) for block in node.blocks])) if node.blocks else self._kernel(node)
        )

    def _code(self, block: Block) -> Code:
        arguments = {place: Value(node, 0) for place, node in block.arguments.items()}
        given = set(block.flow.feeds)
        statements = [
            self.bind(node) for node in block.flow.nodes if node not in given and Value(node, 0) not in self.literals
        ]
        return Code(statements, arguments, block.flow.fetches)

    def _kernel(self, node: Node) -> Bound:
        context = self._context
        kind, xp = (DeviceKind.CPU, np) if node.at_home else (context.kind, context.xp)
        kernel = node.definition.kernel_for(kind, node.input_specs, node.output_specs)
        if kernel is None:
            types = ", ".join(str(spec) for spec in node.input_specs)
            raise errors.UnimplementedError(
                f"{node.definition.name} has no kernel on the {kind} for ({types}); it has them for "
                f"{', '.join(node.definition.kernels) or 'no device'}"
            ).at(node.name, node.definition.name, line=describe_line(node.operation), device=self._device, shapes=())
        call = kernel.bind(node.definition, node, xp)
        if kernel.asynchronous and isinstance(context.device, Gpu) and not node.at_home:
            call = _streamed(context.device, call)
        call = guarded(call, node, kernel, self._ledger)
        if self._ledger is not None and not shares_memory(node):
            call = account_results(call, self._ledger, node, asynchronous=kernel.asynchronous)
        return Bound(node, kernel, call)


def _streamed(gpu: Gpu, call: Callable[..., Any]) -> Callable[..., Any]:
    """A kernel that waits, with the GPU's stream current while it computes."""
    return lambda *inputs: on_stream(gpu, call(*inputs))
