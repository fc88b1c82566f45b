"""Whether a transfer takes memory of its own."""

from aioflow.graph.device_spec import DeviceSpec
from aioflow.plan.passes.compress import same_task
from aioflow.plan.passes.flow import Node
from aioflow.tensors.dtypes import DeviceKind


def shares_memory(node: Node) -> bool:
    """Whether it is a `recv` whose result is the sender's own array: from CPU to CPU of one task nothing is copied."""
    if node.definition.name != "recv":
        return False
    source, target = node.attrs["source"], node.attrs["target"]
    kinds = {DeviceSpec.from_string(each).device_type for each in (source, target)}
    return kinds == {DeviceKind.CPU} and same_task(source, target)
