"""The losses of a graph: collections of them, and their sums."""

from collections.abc import Iterable

from aioflow.graph.building import get_default_graph, transactional
from aioflow.graph.graph_keys import GraphKeys
from aioflow.graph.operation import Tensor
from aioflow.kernels.array.constants import constant
from aioflow.kernels.math.arithmetic import add_n

Collections = str | Iterable[str] | None
"""The name of a collection, several, or None for none."""


def add_loss(loss: Tensor, loss_collection: Collections = GraphKeys.LOSSES) -> None:
    """Add a loss to that collection of its graph, or to several.

    Examples:
        >>> af.losses.add_loss(af.constant(0.5))
        >>> await session.run(af.losses.get_total_loss())
        np.float32(0.5)
    """
    if loss_collection:
        loss.graph.add_to_collections(loss_collection, loss)


def get_losses(scope: str | None = None, loss_collection: str = GraphKeys.LOSSES) -> list[Tensor]:
    """Return the losses of a collection of the default graph.

    `scope`, a regular expression, selects losses whose names it matches at the start.

    Examples:
        >>> loss = af.losses.mean_squared_error([1.0], [3.0])
        >>> len(af.losses.get_losses())
        1
    """
    return get_default_graph().get_collection(loss_collection, scope)


def get_regularization_losses(scope: str | None = None) -> list[Tensor]:
    """Return the losses that the regularizers of `get_variable` made; with `scope`, as `get_losses`.

    Examples:
        >>> v = af.get_variable("w", [2], regularizer=lambda w: 0.1 * af.reduce_sum(w))
        >>> len(af.losses.get_regularization_losses())
        1
    """
    return get_losses(scope, GraphKeys.REGULARIZATION_LOSSES)


@transactional
def get_regularization_loss(scope: str | None = None, name: str = "total_regularization_loss") -> Tensor:
    """Return the sum of the losses of the regularizers, 0 if there are none.

    Examples:
        >>> def penalty(weights):
        ...     return 0.1 * af.reduce_sum(weights)
        >>> v = af.get_variable("w", initializer=[1.0, 1.0], regularizer=penalty)
        >>> await session.run(v.initializer)
        >>> await session.run(af.losses.get_regularization_loss())
        np.float32(0.2)
    """
    losses = get_regularization_losses(scope)
    return add_n(losses, name=name) if losses else constant(0.0)


@transactional
def get_total_loss(
    add_regularization_losses: bool = True, name: str = "total_loss", scope: str | None = None
) -> Tensor:
    """Return the sum of the losses of the default graph: what a training step minimizes.

    Args:
        add_regularization_losses: whether the losses of regularizers belong to it.
        name: the name of the sum.
        scope: a regular expression that selects losses, those of regularizers too, whose names it matches at the start.

    Raises:
        ValueError: there is no loss.

    Examples:
        >>> loss = af.losses.mean_squared_error([1.0], [3.0])
        >>> await session.run(af.losses.get_total_loss())
        np.float32(4.0)
    """
    losses = get_losses(scope) + (get_regularization_losses(scope) if add_regularization_losses else [])
    if not losses:
        raise ValueError("the graph has no losses" + (f" whose names begin with {scope!r}" if scope else ""))
    return add_n(losses, name=name)
