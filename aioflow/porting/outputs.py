"""The outputs of layers compared with those that another program has computed."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from aioflow.graph.operation import Tensor
from aioflow.porting.comparison import Comparison, Difference, difference, is_comparable
from aioflow.porting.matching import proposed_axes
from aioflow.session import Session
from aioflow.tensors.as_array import AnyArray, as_array


async def compare_outputs(
    session: Session,
    expected: Mapping[Any, Any],
    feeds: Mapping[Any, Any] | None = None,
    *,
    axes: Mapping[int, tuple[int, ...]] | None = None,
) -> Comparison:
    """Run a model once, and compare tensors with the values that another program has computed for them.

        comparison = await af.porting.compare_outputs(session, {hidden: values["0"], logits: values["2"]}, {x: images})
        print(comparison)
        print(comparison.first(rtol=1e-4, atol=1e-5))

    The differences come in the order of the graph, in which values are computed: the first one beyond the tolerances
    is the place where the port begins to deviate.

    Args:
        session: a session of the model, whose variables have the weights of the other program.
        expected: the values, such as those that hooks or ONNX Runtime have returned, or of an npz file; by tensor, or
            by name, such as `dense/bias_add:0`.
        feeds: the inputs, by tensor or name.
        axes: for values of a rank the order of their axes, such as `{4: (0, 2, 3, 1)}` for images of PyTorch.

    Raises:
        ValueError: nothing is expected, or a tensor belongs to another graph.
        TypeError: a tensor has no numbers, or an expected value is no array.

    Examples:
        >>> x = af.constant([1.0, 2.0], name="x")
        >>> comparison = await af.porting.compare_outputs(session, {"x:0": np.array([1.0, 2.0])})
        >>> comparison.first() is None
        True
    """
    if not expected:
        raise ValueError("nothing is expected: give values by tensor or name")
    given = {_tensor(session, key): _array(key, value, axes or {}) for key, value in expected.items()}
    tensors = sorted(given, key=lambda tensor: (tensor.op.id, tensor.index))
    computed = await session.run(tensors, feeds)
    return Comparison(
        tuple([_difference(tensor, value, given[tensor]) for tensor, value in zip(tensors, computed, strict=True)])
    )


def _tensor(session: Session, key: Any) -> Tensor:
    found = session.graph.as_graph_element(key, allow_operation=False)
    if not isinstance(found, Tensor) or not is_comparable(found):
        raise TypeError(f"{key!r} has no numbers that could be compared")
    return found


def _array(key: Any, value: Any, axes: Mapping[int, tuple[int, ...]]) -> AnyArray:
    try:
        array = as_array(np.asarray(value))
        return np.transpose(array, axes.get(array.ndim)) if array.ndim in axes else array
    except (TypeError, ValueError) as error:
        raise TypeError(f"the expected value of {key!r} is of no use: {error}") from None


def _difference(tensor: Tensor, computed: Any, expected: AnyArray) -> Difference:
    found = np.shape(computed)
    if found == expected.shape:
        return difference(tensor, computed, expected)
    hint = f"computed {list(found)}, expected {list(expected.shape)}{proposed_axes(expected.shape, found)}"
    return difference(tensor, computed, expected, hint)
