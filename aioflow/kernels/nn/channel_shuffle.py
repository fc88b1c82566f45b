"""A shuffle of channels between their groups, as networks with convolutions in groups have it, in one op.

Plans make it of a reshape, a transpose and a reshape.
"""

from aioflow.graph.kernel import NodeView
from aioflow.graph.op import T, op
from aioflow.kernels.families import CPU, GPU
from aioflow.kernels.nn import onednn_channel_shuffle
from aioflow.kernels.nn.activation import Function
from aioflow.tensors.dtypes import Array, Namespace, Spec


@op
def channel_shuffle(input: T, groups: int) -> Spec:
    """`input` with the channels of `groups` groups taken in turn: the first of each, the second of each ..."""
    sizes = input.sizes
    if sizes and sizes[-1] is not None and sizes[-1] % groups:
        raise ValueError(f"{sizes[-1]} channels cannot be divided into {groups} groups")
    return input


channel_shuffle.no_gradient("a plan makes it of operations that have gradients")


@channel_shuffle.kernel(CPU, GPU, fresh=True, binds=True)
def _plain(xp: Namespace, node: NodeView) -> Function:
    groups = node.attrs["groups"]

    def compute(x: Array) -> Array:
        seen = x.reshape(*x.shape[:-1], groups, x.shape[-1] // groups)
        return xp.swapaxes(seen, -1, -2).copy().reshape(x.shape)

    return compute


onednn_channel_shuffle.declare(channel_shuffle, _plain)
