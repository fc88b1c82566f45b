"""Chooses and binds the kernels of nodes, and finds the values known before a step."""

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeVar

import numpy as np

from aioflow import errors
from aioflow.devices.gpu import Gpu, on_stream
from aioflow.graph.operation import describe_line
from aioflow.kernels.context import Context
from aioflow.plan.allocation import guarded
from aioflow.plan.guards import Guards
from aioflow.plan.passes.flow import Block, Node, Value
from aioflow.plan.passes.recover_loops import spans_devices
from aioflow.program.blocks import Code, Statement, Structured
from aioflow.program.fuse import Bound
from aioflow.program.handles import AccountedKernel, Handle, ValueHandle
from aioflow.program.heavy_runs import with_heavy_runs
from aioflow.program.image_chains import with_image_chains
from aioflow.program.lending import can_lend, lending, sent_elsewhere
from aioflow.program.scalars import expression_for
from aioflow.tensors.dtypes import Array, DeviceKind

H = TypeVar("H", bound=Handle)


class Binder:
    """Binds nodes for one device.

    The results of kernels are tracked if the device tracks memory. The program is then linked with its ledger.

    Attributes:
        literals: the values known before a step: constants, and handles that stand for objects of the session.
        handles: the handles of the program.
    """

    def __init__(self, context: Context, fast: bool = False, blocks: bool = False) -> None:
        self._context = context
        self._fast = fast
        self._blocks = blocks
        device = context.device
        self._device, self._is_tracked = (None, False) if device is None else (device.name, device.accounts is not None)
        self.literals: dict[Value, Array] = {}
        self.handles: Final[list[Handle]] = []
        self._lent: frozenset[Value] = frozenset()

    def find_lent(self, nodes: Iterable[Node]) -> None:
        """Look for values that other tasks get among these nodes, and inside branches and loops."""
        if self._context.kind is DeviceKind.CPU and not self._is_tracked:
            self._lent = sent_elsewhere(nodes)

    def find_literals(self, nodes: Iterable[Node]) -> None:
        """Look for values known before any step among these nodes, and inside branches and loops."""
        for node in nodes:
            for block in node.blocks:
                self.find_literals(block.flow.nodes)
            if (node.definition.name == "constant" or node.definition.handle) and not node.controls:
                self.literals[Value(node, 0)] = self._literal(node)

    def _literal(self, node: Node) -> Array | Handle:
        """Return the value of a constant, or a handle. A constant is charged where the program is linked."""
        bound = self._chosen(node)
        if node.definition.handle:
            return self._handle(ValueHandle(bound))
        if self._is_tracked:
            self._handle(ValueHandle(self._tracked(bound)))
        return bound.call()

    def _handle(self, handle: H) -> H:
        self.handles.append(handle)
        return handle

    def bind(self, node: Node) -> Statement:
        """Return the statement that runs the node. UnimplementedError if it has no kernel."""
        if not node.blocks:
            return self._kernel(node)
        return Structured(node, tuple([self._code(block, spans_devices(node)) for block in node.blocks]))

    def _code(self, block: Block, exchanges: bool) -> Code:
        arguments = {place: Value(node, 0) for place, node in block.arguments.items()}
        given = set(block.flow.feeds)
        statements = [
            self.bind(node) for node in block.flow.nodes if node not in given and Value(node, 0) not in self.literals
        ]
        statements = list(self.together(statements, block.flow.fetches))
        if exchanges:
            statements = with_heavy_runs(statements, block.flow.fetches, self._blocks)
        return Code(statements, arguments, block.flow.fetches)

    def together(self, statements: Sequence[Any], wanted: Sequence[Value]) -> Sequence[Any]:
        """The statements with nodes on images as chains, unless memory is tracked or values may be dead."""
        untracked = self._context.kind is DeviceKind.CPU and not self._is_tracked
        if not untracked or Guards([statement.node for statement in statements]):
            return statements
        return with_image_chains(statements, wanted)

    def _kernel(self, node: Node) -> Bound:
        bound = self._chosen(node)
        if self._is_tracked:
            return self._tracked(bound)
        lends = Value(node, 0) in self._lent and can_lend(node, bound.kernel)
        call = guarded(lending(bound.call, node) if lends else bound.call, node, bound.kernel, None)
        return bound if call is bound.call else dataclasses.replace(bound, call=call, lends=lends)

    def _tracked(self, bound: Bound) -> Bound:
        """The kernel charging the ledger of a session's device, with which the program is linked."""
        return dataclasses.replace(bound, call=self._handle(AccountedKernel(bound.call, bound.kernel, bound.node)))

    def _chosen(self, node: Node) -> Bound:
        """The kernel chosen for a node, without checks of memory. UnimplementedError if there is none."""
        context = self._context
        kind, xp = (DeviceKind.CPU, np) if node.at_home else (context.kind, context.xp)
        fast = self._fast and any(spec.rank != 0 for spec in node.output_specs)
        kernel = node.definition.kernel_for(kind, node.input_specs, node.output_specs, fast=fast)
        if kernel is None:
            types = ", ".join(str(spec) for spec in node.input_specs)
            raise errors.UnimplementedError(
                f"{node.definition.name} has no kernel on the {kind} for ({types}); it has them for "
                f"{', '.join(node.definition.kernels) or 'no device'}"
            ).at(node.name, node.definition.name, line=describe_line(node.operation), device=self._device, shapes=())
        call = kernel.bind(node.definition, node, xp)
        if kernel.asynchronous and isinstance(context.device, Gpu) and not node.at_home:
            call = _streamed(context.device, call)
        as_scalar = kernel.kind is DeviceKind.CPU and not self._is_tracked
        scalar = expression_for(node, kernel, call) if as_scalar else None
        return Bound(node, kernel, call, scalar)


def _streamed(gpu: Gpu, call: Callable[..., Any]) -> Callable[..., Any]:
    """A kernel that waits, with the GPU's stream current while it computes."""
    return lambda *inputs: on_stream(gpu, call(*inputs))
