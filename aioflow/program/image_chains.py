"""Finds the nodes on images that oneDNN computes together, as one chain; see `kernels/nn/image_chain.py`.

A chain begins with a blocked convolution. Each later node takes images from the chain, but for convolutions, which may
begin another part of it.
"""

import traceback
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from aioflow.devices import onednn
from aioflow.kernels.context import Context, Stop
from aioflow.kernels.nn import image_chain
from aioflow.kernels.nn.onednn_image_chain import ImageChain, Member
from aioflow.plan.passes.flow import Value
from aioflow.program.fuse import Bound, Failed, Run, fuse
from aioflow.tensors.dtypes import Array


def with_image_chains(statements: Sequence[Any], wanted: Sequence[Value]) -> Sequence[Any]:
    """Return the statements with such nodes as chains. `wanted` are the values needed after them."""
    if not any(isinstance(b, Bound) and b.node.definition.name == "fused_conv2d" for b in statements):
        return statements
    library = onednn.library()
    return statements if library is None else fuse(statements, wanted, lambda b: _begin(b, library))


def _begin(b: Bound, library: onednn.Library) -> Run | None:
    if b.node.definition.name != "fused_conv2d":
        return None
    run = _ImageRun(library, bool(b.node.attrs["blocked"]))
    return run if run.takes(b) else None


class _ImageRun(Run):
    def __init__(self, library: onednn.Library, blocked: bool) -> None:
        super().__init__()
        self._blocked: Final = blocked
        self._library: Final = library

    def _fits(self, b: Bound) -> bool:
        node, op = b.node, b.node.definition.name
        if node.controls or b.takes_context:
            return False
        if op == "fused_conv2d":
            return node.attrs["blocked"] == self._blocked and image_chain.convolves(op, node, self._blocked)
        images = [node.inputs[place].node for place in image_chain.images_of(op, node)]
        return image_chain.follows(op, node, self._blocked) and not self._nodes.isdisjoint(images)

    def function(self, inputs: Sequence[Value], results: Sequence[Value]) -> "ImageFunction":
        """The function of the chain."""
        return ImageFunction(self.members, inputs, results, self._library)


class _Step(NamedTuple):
    call: Callable[..., Array]
    reads: Sequence[int]
    target: int


class ImageFunction:
    """The function of a chain: from the Context and the inputs to the results."""

    def __init__(
        self, members: Sequence[Bound], inputs: Sequence[Value], results: Sequence[Value], library: onednn.Library
    ) -> None:
        made = [Value(b.node, 0) for b in members]
        number = {value: index for index, value in enumerate([*inputs, *made])}
        self._nodes: Final = {number[Value(b.node, 0)]: b.node for b in members}
        self._steps: Final = [
            _Step(b.call, [number[value] for value in b.inputs], number[Value(b.node, 0)]) for b in members
        ]
        self._results: Final = [number[value] for value in results]
        parts = [
            Member(b.node.definition.name, b.node, step.reads, step.target)
            for b, step in zip(members, self._steps, strict=True)
        ]
        images = dict.fromkeys([image for part in parts for image in part.images if image < len(inputs)])
        self._together: Final = ImageChain(parts, list(images), self._results, library)

    def __call__(self, ctx: Context, *arrays: Array) -> Any:
        """One array for one result, a list for several."""
        found = self._together(arrays, ctx.stop)
        if found is None:
            found = self._one_by_one(ctx.stop, arrays)
        return found[0] if len(found) == 1 else found

    def _one_by_one(self, stop: Stop, arrays: Sequence[Array]) -> list[Array]:
        values = dict(enumerate(arrays))
        last = {number: step.target for step in self._steps for number in step.reads}
        for step in self._steps:
            if stop.asked:
                stop.check()
            values[step.target] = step.call(*[values[number] for number in step.reads])
            for number in step.reads:
                if last[number] == step.target and number not in self._results:
                    values.pop(number, None)
        return [values[number] for number in self._results]

    def failed(self, error: BaseException, arrays: Sequence[Array]) -> Failed | None:
        """The node whose kernel raised an error, and its inputs; None if no kernel did."""
        for frame, _ in traceback.walk_tb(error.__traceback__):
            step = frame.f_locals.get("step") if frame.f_code is _WORK else None
            if step is not None:
                values = frame.f_locals["values"]
                return self._nodes[step.target], [values[number] for number in step.reads]
        return None


_WORK: Final = ImageFunction._one_by_one.__code__
