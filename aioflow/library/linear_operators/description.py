"""What is known of a linear operator before anything is computed: its arguments, its hints, and its shape."""

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypedDict, TypeVar

from aioflow.graph.building import transactional
from aioflow.graph.convert import convert_to_tensor
from aioflow.graph.operation import Tensor
from aioflow.kernels.array.constants import constant
from aioflow.library.control import name_scope
from aioflow.library.linear_operators.batches import axis_of
from aioflow.tensors.dtypes import DType, DTypeLike, as_dtype, int32
from aioflow.tensors.recursion import safe_repr
from aioflow.tensors.shape import Dimension, TensorShape, dimension_at_index

D = TypeVar("D", bound="Described")


class Described:
    """A matrix, or a batch of them, of which the dtype, the shape and some properties are known."""

    def __init__(
        self,
        dtype: DTypeLike,
        graph_parents: Sequence[Tensor] | None = None,
        is_non_singular: bool | None = None,
        is_self_adjoint: bool | None = None,
        is_positive_definite: bool | None = None,
        is_square: bool | None = None,
        name: str | None = None,
        parameters: Mapping[str, Any] | None = None,
    ) -> None:
        for hint, value in (("positive definite", is_positive_definite), ("non-singular", is_non_singular)):
            if value and is_square is False:
                raise ValueError(f"a {hint} matrix is always square: is_square is not False")
        if is_self_adjoint and is_square is False:
            raise ValueError("a self-adjoint matrix is always square: is_square is not False")
        if is_positive_definite and is_non_singular is False:
            raise ValueError("a positive definite matrix is always non-singular: is_non_singular is not False")
        given = parameters or {}
        self._dtype = as_dtype(dtype)
        self._graph_parents = list(graph_parents or ())
        self._is_non_singular = True if is_positive_definite else is_non_singular
        self._is_self_adjoint = is_self_adjoint
        self._is_positive_definite = is_positive_definite
        self._is_square = True if is_positive_definite or is_non_singular or is_self_adjoint else is_square
        self._name = name or type(self).__name__
        self._parameters = {key: given[key] for key in given if key != "self" and not key.startswith("_")}

    # What it was made of

    @property
    def parameters(self) -> dict[str, Any]:
        """The arguments it was made of, by name."""
        return dict(self._parameters)

    @property
    def dtype(self) -> DType:
        """The dtype of its elements, and of the arrays that it multiplies."""
        return self._dtype

    @property
    def name(self) -> str:
        """The scope of its operations."""
        return self._name

    @property
    def graph_parents(self) -> list[Tensor]:
        """The tensors that describe it."""
        return list(self._graph_parents)

    @property
    def is_non_singular(self) -> bool | None:
        """Whether it has an inverse; None if nothing is promised."""
        return self._is_non_singular

    @property
    def is_self_adjoint(self) -> bool | None:
        """Whether it is its own adjoint; None if nothing is promised."""
        return self._is_self_adjoint

    @property
    def is_positive_definite(self) -> bool | None:
        """Whether x^H A x has a positive real part for each x but 0; None if nothing is promised."""
        return self._is_positive_definite

    @property
    def is_square(self) -> bool | None:
        """Whether there are as many rows as columns; None if that is unknown.

        Raises:
            ValueError: the hint contradicts the shape.
        """
        rows, columns = self.range_dimension.value, self.domain_dimension.value
        if rows is None or columns is None:
            return self._is_square
        if self._is_square is not None and self._is_square is not (rows == columns):
            raise ValueError(f"is_square={self._is_square} contradicts the shape {self.shape} of {self._name}")
        return rows == columns

    def __repr__(self) -> str:
        return f"<af.linalg.{type(self).__name__} {self._name!r} shape={self.shape} dtype={self._dtype.name}>"

    # Shapes

    @property
    def shape(self) -> TensorShape:
        """The shape [*batch, M, N], as far as it is known."""
        return self._shape()

    @property
    def batch_shape(self) -> TensorShape:
        """The shape of the batch, as far as it is known."""
        found: TensorShape = self.shape[:-2]
        return found

    @property
    def tensor_rank(self) -> int | None:
        """The number of axes of the dense tensor, None if unknown."""
        return self.shape.ndims

    @property
    def domain_dimension(self) -> Dimension:
        """The number of columns, N."""
        return dimension_at_index(self.shape, -1)

    @property
    def range_dimension(self) -> Dimension:
        """The number of rows, M."""
        return dimension_at_index(self.shape, -2)

    @transactional
    def shape_tensor(self, name: str = "shape_tensor") -> Tensor:
        """The shape [*batch, M, N], as a vector."""
        with self._scope(name):
            return self._whole_shape()

    @transactional
    def batch_shape_tensor(self, name: str = "batch_shape_tensor") -> Tensor:
        """The shape of the batch, as a vector."""
        with self._scope(name):
            return self._batch_sizes()

    @transactional
    def tensor_rank_tensor(self, name: str = "tensor_rank_tensor") -> Tensor:
        """The number of axes of the dense tensor."""
        with self._scope(name):
            rank = self.tensor_rank
            return axis_of(self._whole_shape(), 0) if rank is None else constant(rank, int32)

    @transactional
    def domain_dimension_tensor(self, name: str = "domain_dimension_tensor") -> Tensor:
        """The number of columns, N."""
        with self._scope(name):
            return self._columns()

    @transactional
    def range_dimension_tensor(self, name: str = "range_dimension_tensor") -> Tensor:
        """The number of rows, M."""
        with self._scope(name):
            return self._rows()

    # For subclasses

    def _shape(self) -> TensorShape:
        raise NotImplementedError(f"{type(self).__name__} does not define _shape()")

    def _shape_tensor(self) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__} does not define _shape_tensor()")

    @contextlib.contextmanager
    def _scope(self, name: str) -> Iterator[None]:
        """Operations built inside are named below the operator's scope."""
        with name_scope(f"{self._name}/", values=self._graph_parents), name_scope(name):
            yield

    def _is_spd(self) -> bool:
        """Whether it is hinted to be self-adjoint and positive definite."""
        return bool(self._is_self_adjoint and self._is_positive_definite)

    def _whole_shape(self) -> Tensor:
        """The shape, as a vector: a constant where it is known."""
        known = self.shape
        return convert_to_tensor(known, int32) if known.is_fully_defined() else self._shape_tensor()

    def _batch_sizes(self) -> Tensor:
        """The shape of the batch, as a vector: a constant where it is known."""
        known = self.batch_shape
        return convert_to_tensor(known, int32) if known.is_fully_defined() else self._shape_tensor()[:-2]

    def _rows(self) -> Tensor:
        rows = self.range_dimension.value
        return self._shape_tensor()[-2] if rows is None else constant(rows, int32)

    def _columns(self) -> Tensor:
        columns = self.domain_dimension.value
        return self._shape_tensor()[-1] if columns is None else constant(columns, int32)

    def _check_hint(self) -> None:
        """ValueError if the hint of squareness contradicts the shape."""
        _ = self.is_square


class Hints(TypedDict):
    """The hints of an operator, as arguments of another with the same properties."""

    is_non_singular: bool | None
    is_self_adjoint: bool | None
    is_positive_definite: bool | None
    is_square: bool | None


def hints_of(operator: Described) -> Hints:
    """The hints of an operator."""
    return {
        "is_non_singular": operator.is_non_singular,
        "is_self_adjoint": operator.is_self_adjoint,
        "is_positive_definite": operator.is_positive_definite,
        "is_square": operator.is_square,
    }


def require(hint: str, value: bool | None, always: bool, what: str) -> bool:
    """What always holds for an operator. ValueError if a hint contradicts that."""
    if value is not None and value is not always:
        raise ValueError(f"{what}, but {hint} is {safe_repr(value)}")
    return always


def agreed(hint: str, value: bool | None, others: bool | None, what: str) -> bool | None:
    """A hint, or where it is None that of another operator. ValueError if they contradict each other."""
    return value if others is None else require(hint, value, others, what)


def shared(hint: str, value: bool | None, operators: Iterable[Described], what: str) -> bool | None:
    """A hint of a whole whose parts have it all. ValueError if it denies a property that follows from its parts."""
    return agreed(hint, value, all(getattr(each, hint) for each in operators) or None, what)


def of_one_dtype(operators: Iterable[D]) -> list[D]:
    """The operators of a whole.

    Raises:
        TypeError: one is no operator, or the dtypes differ.
        ValueError: there are none.
    """
    found = list(operators)
    if not found:
        raise ValueError("operators are one or more, not none")
    for each in found:
        if not isinstance(each, Described):
            raise TypeError(f"operators are linear operators, not {safe_repr(each)}")
        if each.dtype is not found[0].dtype:
            names = f"{found[0].name} has {found[0].dtype.name}, {each.name} has {each.dtype.name}"
            raise TypeError(f"operators have one dtype: {names}")
    return found
