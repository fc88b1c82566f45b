"""`map_fn`, `scan`, `foldl`, `foldr`: apply a function row by row, by a loop and TensorArrays."""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any, Final, ParamSpec, TypeVar

from aioflow.graph.building import get_default_graph, transactional, with_subject, with_text
from aioflow.graph.composed import Composed
from aioflow.graph.convert import convert_to_tensor
from aioflow.graph.indexed_slices import IndexedSlices
from aioflow.graph.operation import Tensor
from aioflow.kernels.array.shapes import shape
from aioflow.kernels.control.assertions import Assert, assert_equal
from aioflow.kernels.math.comparison import less
from aioflow.library.control import with_dependencies
from aioflow.library.loops import plain_loop
from aioflow.library.ragged.tensor import RaggedTensor
from aioflow.library.tensor_array import TensorArray
from aioflow.tensors import nest
from aioflow.tensors.dtypes import DType, as_dtype

P = ParamSpec("P")
R = TypeVar("R")


def describing(function: Callable[P, R]) -> Callable[P, R]:
    """`transactional` for a function that builds a loop by other functions: errors name this function first."""
    described = transactional(function)

    @functools.wraps(function)
    def build(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return described(*args, **kwargs)
        except (TypeError, ValueError) as error:
            raise with_text(error, with_subject(error, function.__name__)) from error

    return build


@describing
def map_fn(
    fn: Callable[[Any], Any],
    elems: Any,
    dtype: Any = None,
    parallel_iterations: int | None = None,
    back_prop: bool = True,
    swap_memory: bool = False,
    infer_shape: bool = True,
    name: str | None = None,
) -> Any:
    """Stack the results of `fn` for each row of `elems` along a new first axis.

        squares = af.map_fn(lambda x: x * x, af.constant([1.0, 2.0, 3.0]))
        sums = af.map_fn(lambda ab: ab[0] + ab[1], (a, b), dtype=af.float32)

    Args:
        fn: a function of one row, in the structure of `elems`. It is called once, now, to build the body.
        elems: a tensor or RaggedTensor, or a nested structure of them with equal numbers of rows.
        dtype: the dtypes of the results of `fn`, in their structure; by default those of `elems`.
        parallel_iterations: see `while_loop`; 10 by default.
        back_prop: whether there is a gradient.
        swap_memory: see `while_loop`.
        infer_shape: whether each result of `fn` has the same shape for all rows.
        name: the name of the operations' scope.

    Raises:
        TypeError: `fn` is not a function, or its results have other dtypes or classes.
        ValueError: a value in `elems` has no rows, numbers of rows differ, or `fn` returns another structure.
        InvalidArgumentError: in the run, if numbers of rows differ.

    Examples:
        >>> await session.run(af.map_fn(lambda x: x * x, af.constant([1, 2, 3])))
        array([1, 4, 9], dtype=int32)
    """
    _check_function(fn)
    with get_default_graph().name_scope(name or "map"):
        rows = rows_of(elems)
        wanted = nest.map_structure(as_dtype, rows.dtypes if dtype is None else dtype)
        kinds: list[DType] = nest.flatten(wanted)
        made = [TensorArray(kind, rows.count, infer_shape=infer_shape) for kind in kinds]

        def step(i: Tensor, arrays: list[TensorArray]) -> Any:
            values = _values("fn", fn(rows.row(i)), wanted, kinds, "dtype")
            return i + 1, [array.write(i, value) for array, value in zip(arrays, values, strict=True)]

        _, made = plain_loop(
            lambda i, arrays: i < rows.count, step, (0, made), parallel_iterations=parallel_iterations or 10,
            back_prop=back_prop, swap_memory=swap_memory,
        )  # fmt: skip
        return nest.pack_sequence_as(wanted, [array.stack() for array in made])


@describing
def scan(
    fn: Callable[[Any, Any], Any],
    elems: Any,
    initializer: Any = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    infer_shape: bool = True,
    reverse: bool = False,
    name: str | None = None,
) -> Any:
    """Stack all values of a = fn(a, row), row after row of `elems`, along a new first axis.

        sums = af.scan(lambda a, x: a + x, af.constant([1, 2, 3]))     # [1, 3, 6]

    Args:
        fn: a function of the present value and of one row, in the structure of `elems`. It is called once, now.
        elems: a tensor or RaggedTensor, or a nested structure of them with equal numbers of rows.
        initializer: the value before the first row; by default the first row, and `fn` is applied from the second on.
        parallel_iterations: see `while_loop`.
        back_prop: whether there is a gradient.
        swap_memory: see `while_loop`.
        infer_shape: whether the value has one shape throughout.
        reverse: whether the rows are taken from the last one on; each result stays at the position of its row.
        name: the name of the operations' scope.

    Raises:
        TypeError: `fn` is not a function, or returns other dtypes or classes than those of the present value.
        ValueError: a value in `elems` has no rows, numbers of rows differ, or `fn` returns another structure.
        InvalidArgumentError: in the run, if numbers of rows differ, or there are none and no `initializer`.

    Examples:
        >>> await session.run(af.scan(lambda total, x: total + x, af.constant([1, 2, 3])))
        array([1, 3, 6], dtype=int32)
    """
    _check_function(fn)
    with get_default_graph().name_scope(name or "scan"):
        fold = _Fold(fn, rows_of(elems), initializer, reverse)
        made = [
            TensorArray(
                v.dtype, fold.rows.count, infer_shape=infer_shape, element_shape=v.shape if infer_shape else None
            )
            for v in fold.first
        ]
        if initializer is None:
            made = [array.write(fold.place(0), value) for array, value in zip(made, fold.first, strict=True)]

        def step(i: Tensor, before: list[Tensor], arrays: list[TensorArray]) -> Any:
            values = fold.step(i, before)
            place = fold.place(i)
            return i + 1, values, [array.write(place, value) for array, value in zip(arrays, values, strict=True)]

        _, _, made = plain_loop(
            lambda i, value, arrays: i < fold.rows.count, step, (fold.start, fold.first, made),
            parallel_iterations=parallel_iterations, back_prop=back_prop, swap_memory=swap_memory,
        )  # fmt: skip
        return nest.pack_sequence_as(fold.structure, [array.stack() for array in made])


def _folding(reverse: bool, label: str, order: str, folded: int) -> Callable[..., Any]:
    """Return the result of `foldl` or `foldr`."""

    def fold(
        fn: Callable[[Any, Any], Any],
        elems: Any,
        initializer: Any = None,
        parallel_iterations: int = 10,
        back_prop: bool = True,
        swap_memory: bool = False,
        name: str | None = None,
    ) -> Any:
        _check_function(fn)
        with get_default_graph().name_scope(name or label):
            fold = _Fold(fn, rows_of(elems), initializer, reverse)
            _, values = plain_loop(
                lambda i, value: i < fold.rows.count, lambda i, value: (i + 1, fold.step(i, value)),
                (fold.start, fold.first), parallel_iterations=parallel_iterations, back_prop=back_prop,
                swap_memory=swap_memory,
            )  # fmt: skip
            return nest.pack_sequence_as(fold.structure, values)

    fold.__name__ = fold.__qualname__ = label
    fold.__doc__ = f"""The last value of a = fn(a, row), over the rows of `elems` from the {order} on.

    Args:
        fn: a function of the value so far and of one row, of the structure of `elems`. It is called once, now.
        elems: a tensor, or a nested structure of tensors with as many rows each.
        initializer: the value before all rows; by default the {order} row, and `fn` is applied from the next on.
        parallel_iterations: see `while_loop`.
        back_prop: whether there is a gradient.
        swap_memory: see `while_loop`.
        name: the name of the operations' scope.

    Raises:
        TypeError: `fn` is not a function, or returns other dtypes or classes than the value before has.
        ValueError: something in `elems` has no rows, or numbers of rows differ, or `fn` returns another structure.
        InvalidArgumentError: in the run, if numbers of rows differ, or there are none and no `initializer`.

    Examples:
        >>> digits = af.constant([1, 2, 3])
        >>> await session.run(af.{label}(lambda number, digit: 10 * number + digit, digits))
        np.int32({folded})
    """
    return describing(fold)


foldl: Final = _folding(False, "foldl", "first", 123)
foldr: Final = _folding(True, "foldr", "last", 321)


def _check_function(fn: Any) -> None:
    if not callable(fn):
        raise TypeError(f"fn must be a function, not {fn!r}")


@dataclasses.dataclass(frozen=True, slots=True)
class Rows:
    """Tensors with equal numbers of rows, to be read row by row.

    Attributes:
        structure: the tensors in their structure.
        arrays: the rows of each.
        count: the number of rows: a number if it is known, else a tensor.
    """

    structure: Any
    arrays: "list[TensorArray | _RaggedRows]"
    count: Any

    @property
    def dtypes(self) -> Any:
        """The dtypes, in the structure."""
        return nest.pack_sequence_as(self.structure, [array.dtype for array in self.arrays])

    def row(self, index: Any) -> Any:
        """Return one row, in the structure."""
        return nest.pack_sequence_as(self.structure, [array.read(index) for array in self.arrays])


def rows_of(elems: Any, what: str = "elems") -> Rows:
    """Return the rows of tensors in a structure, which errors call `what`."""
    leaves = nest.flatten(elems)
    if not leaves:
        raise ValueError(f"{what} has no tensor in it: {elems!r}")
    tensors = [_check_rows(f"{what}[{index}]", value) for index, value in enumerate(leaves)]
    count = _count([each.row_limits() if isinstance(each, RaggedTensor) else each for each in tensors], what)
    return Rows(elems, [_rows(tensor, count) for tensor in tensors], count)


@dataclasses.dataclass(frozen=True, slots=True)
class _RaggedRows:
    """The rows of a RaggedTensor, which are read like those of a TensorArray."""

    ragged: RaggedTensor

    @property
    def dtype(self) -> DType:
        return self.ragged.dtype

    def read(self, index: Any) -> Any:
        """Return one row."""
        return self.ragged[index]


def _rows(tensor: Tensor | RaggedTensor, count: Any) -> "TensorArray | _RaggedRows":
    if isinstance(tensor, RaggedTensor):
        return _RaggedRows(tensor)
    return TensorArray(tensor.dtype, count, clear_after_read=False).unstack(tensor)


def _check_rows(what: str, value: Any) -> Tensor | RaggedTensor:
    if isinstance(value, RaggedTensor):
        return value
    if isinstance(value, (Composed, IndexedSlices)):
        raise TypeError(f"{what} is {type(value).__name__}, which has no rows: use its component tensors")
    tensor = convert_to_tensor(value)
    if tensor.spec.rank == 0:
        raise ValueError(
            f"{what} has rank 0 and so no rows ({tensor.name}); a list is a structure of tensors: for one tensor of "
            "several numbers use af.constant"
        )
    return tensor


def _count(tensors: Sequence[Tensor], what: str) -> Any:
    """Return the number of rows. ValueError if known numbers differ; the run asserts unknown ones."""
    sizes = [tensor.shape[0].value if tensor.spec.rank is not None else None for tensor in tensors]
    known = [size for size in sizes if size is not None]
    if len(set(known)) > 1:
        raise ValueError(f"{what} must have as many rows each, and they have {', '.join(map(str, sizes))}")
    counts = [shape(t)[0] for t, size in zip(tensors, sizes, strict=True) if size is None]
    count = known[0] if known else counts.pop(0)
    checks = [assert_equal(each, count, message=f"{what} must have as many rows each") for each in counts]
    return with_dependencies(checks, convert_to_tensor(count)) if checks else count


class _Fold:
    """The folding of rows into a value.

    Attributes:
        rows: the rows.
        structure: the structure of the value.
        first: the flat value before the loop.
        start: the number of rows in `first`.
    """

    def __init__(self, fn: Callable[[Any, Any], Any], rows: Rows, initializer: Any, reverse: bool) -> None:
        self.rows = rows
        self._fn = fn
        self._reverse = reverse
        self.start = 1 if initializer is None else 0
        if isinstance(rows.count, int) and rows.count < self.start:
            raise ValueError("elems has no rows: without an initializer there is no value")
        self.structure = rows.structure if initializer is None else initializer
        given = self._first_row() if initializer is None else initializer
        self.first = [convert_to_tensor(value) for value in nest.flatten(given)]

    def _first_row(self) -> Any:
        count = self.rows.count
        if isinstance(count, int):
            return self.rows.row(self.place(0))
        check = Assert(less(0, count), ["elems has no rows, and without an initializer there is no value"])
        with get_default_graph().control_dependencies([check]):
            return self.rows.row(self.place(0))

    def place(self, i: Any) -> Any:
        """Return the number of the row that follows `i` others."""
        return self.rows.count - 1 - i if self._reverse else i

    def step(self, i: Tensor, before: list[Tensor]) -> list[Tensor]:
        """Return the flat value after one more row."""
        value = self._fn(nest.pack_sequence_as(self.structure, before), self.rows.row(self.place(i)))
        what = "elems" if self.start else "initializer"
        return _values("fn", value, self.structure, [tensor.dtype for tensor in self.first], what)


def _values(who: str, value: Any, wanted: Any, kinds: Sequence[DType], what: str) -> list[Tensor]:
    """Return the flat results of `fn`. TypeError or ValueError unless structure and dtypes are as wanted."""
    try:
        nest.assert_same_structure(wanted, value)
    except (TypeError, ValueError) as error:
        raise type(error)(f"the result of {who} differs in structure from {what}: {error}") from None
    tensors = [
        convert_to_tensor(each, preferred_dtype=kind) for each, kind in zip(nest.flatten(value), kinds, strict=True)
    ]
    for index, (tensor, kind) in enumerate(zip(tensors, kinds, strict=True)):
        if tensor.dtype is not kind:
            raise TypeError(
                f"value {index} of the result of {who} is {tensor.dtype.name} ({tensor.name}), but {what} has "
                f"{kind.name}: use af.cast, or change it"
            )
    return tensors
