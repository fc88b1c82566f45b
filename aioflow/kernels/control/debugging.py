"""Debugging ops: print values, and check that they are finite."""

import itertools
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from aioflow import errors
from aioflow.graph.building import get_default_graph, transactional
from aioflow.graph.convert import TensorLike
from aioflow.graph.effects import STATES
from aioflow.graph.kernel import NodeView
from aioflow.graph.op import op
from aioflow.graph.operation import Operation, Tensor
from aioflow.kernels.array.constants import no_op
from aioflow.kernels.context import Context
from aioflow.tensors.dtypes import COMPLEX, FLOAT, Array, DeviceKind, Namespace, Spec, TensorShape, float64

CPU, GPU = DeviceKind.CPU, DeviceKind.GPU

_FEW = 3


def summarize_value(value: Array, limit: int | None = None) -> str:
    """The first elements of an array as text, 3 of them by default, all if `limit` is negative: `[1 2][3...]`.

    Examples:
        >>> af.summarize_value(np.arange(10), 3)
        '0 1 2...'
    """
    array = np.asarray(value)
    wanted = array.size if limit is not None and limit < 0 else _FEW if limit is None else limit
    elements = map(_text, itertools.islice(array.flat, wanted))
    more = "..." if array.size > wanted else ""
    return (" ".join(elements) if array.ndim < 2 else _nested(array.shape, elements)) + more


def _nested(shape: Sequence[int], elements: Iterator[str]) -> str:
    """Rows in brackets, until the elements end."""
    if len(shape) == 1:
        return " ".join(itertools.islice(elements, shape[0]))
    rows = (_nested(shape[1:], elements) for _ in range(shape[0]))
    return "".join(f"[{row}]" for row in itertools.takewhile(bool, rows))


def _text(element: Any) -> str:
    return element.decode(errors="backslashreplace") if isinstance(element, bytes) else str(element)


def brackets(values: Sequence[Array], limit: int | None) -> str:
    """The first elements of each array, in brackets.

    Examples:
        >>> af.brackets(np.arange(4).reshape(2, 2), 3)
        '[0 1][2 3]'
    """
    return "".join(f"[{summarize_value(value, limit)}]" for value in values)


# Print


class _Printed:
    """How often a Print has printed in one session."""

    def __init__(self) -> None:
        self.count = 0

    def release(self) -> None:
        """Nothing to let go of."""


@op(name="print", stateful=True)
def Print(
    input_: Spec,
    data: Sequence[Spec],
    message: str | None = None,
    first_n: int | None = None,
    summarize: int | None = None,
) -> Spec:
    """`input_` unchanged; each time it is computed, `message` and the first elements of each of `data` go to stderr.

    `first_n` bounds how often it prints in one session, `summarize` how many elements of each tensor, 3 by default; a
    negative number stands for no bound.

    Examples:
        >>> x = af.Print([1, 2], ["x is"])
        >>> await session.run(x)
        array([1, 2], dtype=int32)
    """
    return input_


@Print.gradient
def _(op: Operation, dy: Tensor) -> tuple[Tensor | None, ...]:
    return dy, *[None] * (len(op.inputs) - 1)


@Print.kernel(CPU)
def _(
    ctx: Context,
    input_: Array,
    data: Sequence[Array],
    *,
    message: str | None,
    first_n: int | None,
    summarize: int | None,
    node: NodeView,
) -> Array:
    if first_n is not None and first_n >= 0:
        printed = ctx.resources.container("").lookup_or_create(_Printed, node.name, _Printed)
        if printed.count >= first_n:
            return input_
        printed.count += 1
    sys.stderr.write(f"{message or ''}{brackets(data, summarize)}\n")
    return input_


# Time


@op(stateful=True)
def timestamp() -> Spec:
    """The seconds since the beginning of 1970 when the operation runs.

    Examples:
        >>> bool(await session.run(af.timestamp()) > 0)
        True
    """
    return Spec(float64, TensorShape(()))


timestamp.no_gradient("it has no inputs")


@timestamp.kernel(CPU, fresh=True)
def _(xp: Namespace) -> Array:
    return np.array(time.time())


# NaN and infinity


@op
def check_numerics(tensor: Spec, message: str) -> Spec:
    """`tensor` unchanged; InvalidArgumentError with `message` and their count if elements are NaN or infinite.

    Examples:
        >>> try:
        ...     await session.run(af.check_numerics([1.0, float("nan")], "scores"))
        ... except af.errors.InvalidArgumentError as error:
        ...     print(error.message)
        scores: 1 NaN and 0 infinite of 2 elements
    """
    return tensor.only(FLOAT, COMPLEX)


@check_numerics.gradient
def _(op: Operation, dy: Tensor) -> Tensor:
    return check_numerics(dy, f"in the gradient of: {op.attrs['message']}")


@check_numerics.kernel(CPU)  # a GPU would be waited for
def _(xp: Namespace, tensor: Array, *, message: str) -> Array:
    if not xp.isfinite(tensor).all():
        nan, inf = int(xp.isnan(tensor).sum()), int(xp.isinf(tensor).sum())
        raise errors.InvalidArgumentError(f"{message}: {nan} NaN and {inf} infinite of {tensor.size} elements")
    return tensor


def verify_tensor_all_finite(
    t: TensorLike | None = None,
    msg: str | None = None,
    name: str | None = None,
    x: TensorLike | None = None,
    message: str | None = None,
) -> Tensor:
    """`t` unchanged; InvalidArgumentError with `msg` if elements are NaN or infinite. Also called `x` and `message`.

    Examples:
        >>> await session.run(af.verify_tensor_all_finite(af.constant([1.0, 2.0]), "scores"))
        array([1., 2.], dtype=float32)
    """
    tensor, text = x if t is None else t, message if msg is None else msg
    if tensor is None or text is None:
        raise ValueError("verify_tensor_all_finite needs a tensor and a message")
    return check_numerics(tensor, text, name=name)


@transactional
def add_check_numerics_ops() -> Operation:
    """An operation that fails at the first tensor of the graph, in order of construction, that is not finite.

    It checks the floating tensors that are in the default graph now, and so needs all placeholders fed. It leaves out
    updates of variables and operations after them: the check itself changes nothing.

    Examples:
        >>> y = af.log(af.placeholder_with_default(0.0, []))
        >>> try:
        ...     await session.run(af.add_check_numerics_ops())
        ... except af.errors.InvalidArgumentError as error:
        ...     print(error.op_type)
        check_numerics
    """
    graph = get_default_graph()
    checks: list[Operation] = []
    updates: set[Operation] = set()
    for operation in graph.get_operations():
        if _updates(operation) or not updates.isdisjoint(_before(operation)):
            updates.add(operation)
        elif operation.type != "check_numerics":
            for tensor in (output for output in operation.outputs if output.dtype in FLOAT):
                with graph.control_dependencies(checks):
                    checks = [check_numerics(tensor, tensor.name).op]
    with graph.control_dependencies(checks):
        return no_op()


def _updates(operation: Operation) -> bool:
    """Whether it changes a variable or a table."""
    definition = operation.definition
    return definition.stateful and not definition.observes and any(t.op.type in STATES for t in operation.inputs)


def _before(operation: Operation) -> Iterator[Operation]:
    return itertools.chain((tensor.op for tensor in operation.inputs), operation.control_inputs)
