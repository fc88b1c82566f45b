"""The check that all variables which the calls of a model make are its weights.

Training and evaluation call a model again. A layer that `call` itself makes would have other weights in each of these
calls, and none of them would be trained or saved.
"""

import contextlib
from collections.abc import Iterator, Sequence

from aioflow.graph.building import get_default_graph
from aioflow.graph.graph_keys import GraphKeys
from aioflow.layers.layer import Layer
from aioflow.library.variables import Variable
from aioflow.train.step_counter import get_global_step


@contextlib.contextmanager
def making_only_weights(model: Layer) -> Iterator[None]:
    """The block, in the root graph of the model, calls the model and its losses.

    ValueError if it makes variables that are neither weights of the model nor the global step.
    """
    graph = get_default_graph()
    before = graph.get_collection(GraphKeys.GLOBAL_VARIABLES)
    yield
    known = {*before, *model.weights, get_global_step(graph)}
    _check_none(model, [each for each in graph.get_collection(GraphKeys.GLOBAL_VARIABLES) if each not in known])


def _check_none(model: Layer, others: Sequence[Variable]) -> None:
    if others:
        names = ", ".join(repr(each.op.name) for each in others[:4]) + (", ..." if len(others) > 4 else "")
        raise ValueError(
            f"a call of {model.name!r}, or of its loss, makes variables that are no weights of it, so that they are "
            f"neither trained nor saved, and each call makes them anew: {names}. Make layers in `__init__` or `build`, "
            "as attributes of the layer that calls them, and weights by `add_weight` in `build`"
        )
