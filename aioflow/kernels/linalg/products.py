"""Products of vectors, matrices and tensors: `cross`, `matvec`, `tensordot`, and `einsum` in Einstein's notation.

    einsum("ij,jk->ik", a, b)       matmul(a, b)
    einsum("bij,bjk->bik", a, b)    a product for each b
    einsum("ii->", a)               trace
    einsum("...ij->...ji", a)       the last two axes swapped

Two tensors at a time are multiplied. The axes of a pair are of four sorts: `batch` axes are in both and stay, `inner`
ones are in both and are summed, `left` and `right` ones are in one alone and stay. So the product is one `matmul` of
[batch, left, inner] and [batch, inner, right]; without inner axes it is a multiplication that broadcasts.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from aioflow import errors
from aioflow.graph.building import same_graph, transactional
from aioflow.graph.convert import NumberLike, constant_value, convert_to_tensor
from aioflow.graph.op import T, op
from aioflow.graph.operation import Tensor
from aioflow.graph.operators import OPERATORS
from aioflow.kernels.families import CPU, GPU, broadcast_gradient, elements
from aioflow.kernels.linalg.diagonals import matrix_diag_part
from aioflow.kernels.linalg.matmul import matmul
from aioflow.kernels.math.complex import conj
from aioflow.kernels.math.reduction import reduce_prod, reduce_sum
from aioflow.tensors.dtypes import NUMERIC, Array, DType, Namespace, Spec, merge_sizes, normalise_axis


@op
def cross(a: T, b: T) -> Spec:
    """The vector product of the vectors of three numbers in the last axes of a and b, whose other axes broadcast.

    Examples:
        >>> await session.run(af.cross([1.0, 0.0, 0.0], [0.0, 1.0, 0.0]))
        array([0., 0., 1.], dtype=float32)
    """
    a.only(NUMERIC).same_dtype(b)
    for spec in (a, b):
        if spec.rank == 0 or (spec.sizes is not None and spec.sizes[-1] not in (None, 3)):
            raise ValueError(f"the last axis must have size 3, the shape is {spec.shape}")
    return Spec(a.dtype, a.broadcast(b))


broadcast_gradient(cross, lambda z, a, b, dz: (cross(conj(b), dz), cross(dz, conj(a))))


@cross.kernel(CPU, GPU, fresh=True)
def _(xp: Namespace, a: Array, b: Array) -> Array:
    if a.shape[-1:] != (3,) or b.shape[-1:] != (3,):
        raise errors.InvalidArgumentError(f"the last axes must have size 3, the shapes are {a.shape} and {b.shape}")
    shape = a.shape if a.shape == b.shape else np.broadcast_shapes(a.shape, b.shape)
    z = xp.empty(shape, a.dtype)
    for i in range(3):
        j, k = (i + 1) % 3, (i + 2) % 3
        part = a[..., j] * b[..., k]
        part -= a[..., k] * b[..., j]
        z[..., i] = part
    return z


@cross.cost
def _(inputs: Sequence[Spec], outputs: Sequence[Spec], attrs: Any) -> float:
    return 3 * elements(outputs[0])


@transactional
def matvec(
    a: NumberLike,
    b: NumberLike,
    transpose_a: bool = False,
    adjoint_a: bool = False,
    a_is_sparse: bool = False,
    b_is_sparse: bool = False,
    name: str | None = None,
) -> Tensor:
    """The product of each matrix in a with a vector, the last axis of b. The hints of sparseness change nothing.

    Examples:
        >>> await session.run(af.linalg.matvec([[1.0, 2.0], [3.0, 4.0]], [1.0, 1.0]))
        array([3., 7.], dtype=float32)
    """
    matrix = convert_to_tensor(a)
    columns = OPERATORS["expand_dims"](convert_to_tensor(b, matrix.dtype), -1)
    found = matmul(matrix, columns, transpose_a=transpose_a, adjoint_a=adjoint_a)
    return OPERATORS["squeeze"](found, [-1], name=name)


def adjoint(matrix: NumberLike, name: str | None = None) -> Tensor:
    """The conjugate transpose of each matrix.

    Examples:
        >>> await session.run(af.linalg.adjoint([[1 + 2j, 3.0]]))
        array([[1.-2.j],
               [3.-0.j]])
    """
    return OPERATORS["matrix_transpose"](matrix, conjugate=True, name=name)


Labels: TypeAlias = tuple[str, ...]
"""The name of each axis: a letter, or "...2" for the second from the end of the axes that an ellipsis stands for."""

_ASSUMED: Final = 32
"""The size assumed for an open axis in the choice of the order of products."""


class Term(NamedTuple):
    """A tensor and the names of its axes."""

    tensor: Tensor
    labels: Labels


@transactional
def einsum(equation: str, *inputs: NumberLike, name: str | None = None) -> Tensor:
    """The products of elements of the inputs, summed over all axes that the right hand side does not name.

    Args:
        equation: as "ij,jk->ik": a letter for each axis of each input, then those of the result. A letter twice in an
            input takes its diagonal. Without "->" the result has, in order, the letters that appear once. "..." stands
            for axes that broadcast.
        *inputs: tensors of one dtype.
        name: the name scope of the operations.

    Raises:
        ValueError: the equation does not fit the inputs, or axes of one name have different sizes.

    Examples:
        >>> await session.run(af.einsum("ij,jk->ik", [[1, 2]], [[3], [4]]))
        array([[11]], dtype=int32)
    """
    if not isinstance(equation, str):
        raise TypeError(f"einsum: the equation is text, not {equation!r}")
    tensors = _tensors(inputs)
    with same_graph(*tensors).name_scope(name or "einsum"):
        terms, wanted = _parsed(equation.replace(" ", ""), tensors)
        _check_sizes(equation, terms)
        return _contracted([_without_repeats(term) for term in terms], wanted)


def _tensors(inputs: Sequence[Any]) -> list[Tensor]:
    found = (value.dtype for value in inputs if isinstance(getattr(value, "dtype", None), DType))
    dtype = next(found, None)
    tensors: list[Tensor] = []
    for value in inputs:
        tensors.append(convert_to_tensor(value, dtype or (tensors[0].dtype if tensors else None)))
    return tensors


# Equations


def _parsed(equation: str, tensors: Sequence[Tensor]) -> tuple[list[Term], Labels]:
    left, arrow, right = equation.partition("->")
    parts = left.split(",")
    if len(parts) != len(tensors) or not tensors:
        raise ValueError(f"einsum: {equation!r} is for {len(parts)} tensors, not {len(tensors)}")
    for text in [*parts, right]:
        letters = text.replace("...", "", 1)
        if letters and not (letters.isascii() and letters.isalpha()):
            raise ValueError(f"einsum: {text!r} in {equation!r} is not made of letters and one ...")
    terms = [Term(tensor, _axes(text, tensor)) for text, tensor in zip(parts, tensors, strict=True)]
    everywhere = [label for term in terms for label in term.labels]
    dots = sorted({label for label in everywhere if len(label) > 1}, key=_from_end, reverse=True)
    wanted = _output(right, dots) if arrow else _implied(left, dots)
    if len({*wanted}) < len(wanted) or not {*wanted} <= {*everywhere} or not {*dots} <= {*wanted}:
        raise ValueError(f"einsum: the result of {equation!r} must name axes of inputs, each once, and ... if they do")
    return terms, wanted


def _axes(text: str, tensor: Tensor) -> Labels:
    before, dots, after = text.partition("...")
    rank = tensor.spec.rank
    if dots and rank is None:
        raise ValueError(f"einsum: ... needs a tensor of known rank, not {tensor!r}")
    count = (rank or 0) - len(before) - len(after)
    if count < 0 < len(dots) or (not dots and rank not in (None, len(text))):
        raise ValueError(f"einsum: {text!r} does not name the axes of a tensor of shape {tensor.shape}")
    return (*before, *(f"...{count - i}" for i in range(count if dots else 0)), *after)


def _from_end(label: str) -> int:
    return int(label[3:])


def _output(text: str, dots: Iterable[str]) -> Labels:
    before, given, after = text.partition("...")
    return (*before, *(dots if given else ()), *after)


def _implied(left: str, dots: Iterable[str]) -> Labels:
    letters = left.replace("...", "").replace(",", "")
    return (*dots, *sorted(letter for letter in letters if letters.count(letter) == 1))


def _check_sizes(equation: str, terms: Sequence[Term]) -> None:
    found: dict[str, int | None] = {}
    for tensor, labels in terms:
        for label, size in zip(labels, tensor.spec.sizes or (None,) * len(labels), strict=True):
            if len(label) > 1 and size == 1:
                continue  # it broadcasts
            try:
                found[label] = merge_sizes(found.get(label), size)
            except ValueError:
                text = f"einsum: axis {label!r} in {equation!r} has the sizes {found[label]} and {size}"
                raise ValueError(text) from None


# One tensor


def _without_repeats(term: Term) -> Term:
    """The diagonal of axes that have one name."""
    tensor, labels = term
    if tensor.spec.rank is None:
        tensor = OPERATORS["transpose"](tensor, [*range(len(labels))])  # which a tensor of another rank refuses
        tensor.set_shape([None] * len(labels))
    while repeated := next((label for label in labels if labels.count(label) > 1), None):
        first = labels.index(repeated)
        second = labels.index(repeated, first + 1)
        rest = [i for i in range(len(labels)) if i not in (first, second)]
        moved = _transposed(tensor, [*rest, first, second])
        tensor = matrix_diag_part(_made_square(moved))
        labels = (*(labels[i] for i in rest), repeated)
    return Term(tensor, labels)


def _made_square(x: Tensor) -> Tensor:
    """`x`, whose last two axes are one: a run in which they differ fails."""
    sizes = x.spec.sizes or ()
    if sizes[-1] is not None and sizes[-1] == sizes[-2]:
        return x
    size = _size(x, -1)
    return OPERATORS["reshape"](x, [*(_size(x, i) for i in range(len(sizes) - 2)), size, size])


def _transposed(x: Tensor, order: Sequence[int]) -> Tensor:
    return x if list(order) == sorted(order) else OPERATORS["transpose"](x, order)


def _arranged(term: Term, labels: Sequence[str]) -> Tensor:
    """The tensor with its axes in that order; other axes are summed."""
    tensor, mine = term
    gone = [i for i, label in enumerate(mine) if label not in labels]
    if gone:
        tensor, mine = reduce_sum(tensor, gone), tuple([label for label in mine if label in labels])
    return _transposed(tensor, [mine.index(label) for label in labels])


# Products


def _contracted(terms: list[Term], wanted: Labels) -> Tensor:
    for step in _path(terms, wanted):
        chosen = [terms[i] for i in step]
        terms = [term for i, term in enumerate(terms) if i not in step]
        while len(chosen) > 1:
            first, second, *others = chosen
            rest = [*terms, *others]
            kept = {*wanted}.union(*(term.labels for term in rest))
            chosen = [*others, _multiplied(_trimmed(first, second, kept), _trimmed(second, first, kept), kept, wanted)]
        terms.extend(chosen)
    return _arranged(terms[0], wanted)


def _path(terms: Sequence[Term], wanted: Labels) -> list[tuple[int, ...]]:
    """Which terms are multiplied in each step; the product goes to the end."""
    if len(terms) < 3:
        return [tuple(range(len(terms)))]
    places = {label: i for i, label in enumerate(dict.fromkeys(label for term in terms for label in term.labels))}
    arguments: list[Any] = []
    for tensor, labels in terms:
        sizes = [_ASSUMED if size is None else size for size in tensor.spec.sizes or (None,) * len(labels)]
        arguments += [np.broadcast_to(np.int8(0), sizes), [places[label] for label in labels]]
    wish = ("optimal" if len(terms) < 5 else "greedy", 1 << 62)
    steps = np.einsum_path(*arguments, [places[label] for label in wanted], optimize=wish)[0][1:]
    return [tuple(step) for step in steps]


def _trimmed(term: Term, other: Term, kept: set[str]) -> Term:
    """The term, summed over the axes that only it has and the result lacks."""
    labels = tuple([label for label in term.labels if label in other.labels or label in kept])
    return Term(_arranged(term, labels), labels)


def _multiplied(a: Term, b: Term, kept: set[str], wanted: Labels) -> Term:
    both = [label for label in a.labels if label in b.labels]
    batch = _in_order([label for label in both if label in kept], wanted)
    inner = [label for label in both if label not in kept]
    left, right = (_in_order([label for label in x.labels if label not in both], wanted) for x in (a, b))
    result = (*batch, *left, *right)
    if not inner or (batch and not left and not right):
        product = _aligned(a, [*batch, *inner], left, right, True) * _aligned(b, [*batch, *inner], left, right, False)
        return Term(reduce_sum(product, [*range(len(batch), len(both))]) if inner else product, result)
    if right and _first(right, wanted) < _first(left, wanted):
        a, b, left, right = b, a, right, left
        result = (*batch, *left, *right)
    x, flip_a = _as_matrices(a, batch, left, inner)
    y, flip_b = _as_matrices(b, batch, inner, right)
    product = matmul(x, y, transpose_a=flip_a, transpose_b=flip_b)
    if len(left) == len(right) == 1:
        return Term(product, result)
    sizes = [_batch_size(a, b, label) for label in batch]
    sizes += [_size(term.tensor, term.labels.index(label)) for term, free in ((a, left), (b, right)) for label in free]
    return Term(OPERATORS["reshape"](product, sizes), result)


def _in_order(labels: Sequence[str], wanted: Labels) -> list[str]:
    """`labels` as they stand in the result, those that do not at the end."""
    return sorted(labels, key=lambda label: wanted.index(label) if label in wanted else len(wanted))


def _first(labels: Sequence[str], wanted: Labels) -> int:
    return min((wanted.index(label) for label in labels if label in wanted), default=len(wanted))


def _aligned(term: Term, both: Sequence[str], left: Sequence[str], right: Sequence[str], is_left: bool) -> Tensor:
    """The tensor as [*both, *left, *right], with 1 for each axis that it does not have."""
    tensor = _arranged(term, [*both, *(left if is_left else right)])
    missing = len(right if is_left else left)
    if not missing or (not is_left and not both):
        return tensor  # axes in front come by themselves
    gap = (None,) * missing
    return tensor[(..., *gap)] if is_left else tensor[(*(slice(None),) * len(both), *gap, ...)]


def _as_matrices(term: Term, batch: Sequence[str], rows: Sequence[str], columns: Sequence[str]) -> tuple[Tensor, bool]:
    """The tensor as [*batch, rows, columns], or transposed if its axes stand so; and whether it is."""
    flip = term.labels == (*batch, *columns, *rows) and bool(rows) and bool(columns)
    groups = (columns, rows) if flip else (rows, columns)
    tensor = _arranged(term, [*batch, *groups[0], *groups[1]])
    if len(rows) == len(columns) == 1:
        return tensor, flip
    sizes = [_size(tensor, i) for i in range(len(batch))]
    start = len(batch)
    for group in groups:
        sizes.append(_total([_size(tensor, i) for i in range(start, start + len(group))]))
        start += len(group)
    return OPERATORS["reshape"](tensor, sizes), flip


def _size(x: Tensor, axis: int) -> Any:
    """The size of an axis: a number where it is known, else a tensor."""
    size = None if x.spec.sizes is None else x.spec.sizes[axis]
    return OPERATORS["shape"](x)[axis] if size is None else size


def _batch_size(a: Term, b: Term, label: str) -> Any:
    """The size of an axis that both have, and that may broadcast."""
    one, two = (_size(term.tensor, term.labels.index(label)) for term in (a, b))
    if len(label) == 1 or one == 1 or (isinstance(two, int) and two != 1):
        return two if one == 1 or not isinstance(one, int) else one
    return one if isinstance(one, int) else OPERATORS["maximum"](one, two)


def _total(sizes: Sequence[Any]) -> Any:
    if all(isinstance(size, int) for size in sizes):
        return math.prod(sizes)
    return reduce_prod(OPERATORS["stack"](sizes))


@transactional
def tensordot(a: NumberLike, b: NumberLike, axes: Any, name: str | None = None) -> Tensor:
    """The sum of products over axes of a and b; the result has a's other axes, then b's.

    Args:
        a: a tensor of known rank.
        b: another of the same dtype.
        axes: two sequences of equal length, or two numbers: the axes of a and of b to sum over; or one number: that
            many of a's last axes and b's first. A tensor must be known when the graph is built.
        name: the name of the result.

    Raises:
        ValueError: an axis is out of range, the sizes differ, or a rank is not known.

    Examples:
        >>> await session.run(af.tensordot([[1, 2]], [[3], [4]], axes=1))
        array([[11]], dtype=int32)
    """
    a, b = _pair(a, b)
    ranks = _known_rank(a), _known_rank(b)
    met_a, met_b = _met(axes, *ranks)
    free_a, free_b = ([i for i in range(r) if i not in met] for r, met in zip(ranks, (met_a, met_b), strict=True))
    left = _as_matrix(a, free_a, met_a)
    right = _as_matrix(b, met_b, free_b)
    sizes = [_tensordot_size(tensor, i) for tensor, free in ((a, free_a), (b, free_b)) for i in free]
    if len(free_a) == len(free_b) == 1:
        return matmul(left, right, name=name)
    return OPERATORS["reshape"](matmul(left, right), sizes, name=name)


def _pair(a: NumberLike, b: NumberLike) -> tuple[Tensor, Tensor]:
    if isinstance(b, Tensor) and not isinstance(a, Tensor):
        return convert_to_tensor(a, b.dtype), b
    a = convert_to_tensor(a)
    return a, convert_to_tensor(b, a.dtype)


def _known_rank(tensor: Tensor) -> int:
    if tensor.spec.rank is None:
        raise ValueError(f"tensordot: the rank of {tensor!r} must be known")
    return tensor.spec.rank


def _met(axes: Any, rank_a: int, rank_b: int) -> tuple[list[int], list[int]]:
    if isinstance(axes, Tensor):
        value = constant_value(axes)
        if value is None:
            raise TypeError(f"tensordot: the axes must be known when the graph is built, and are not: {axes!r}")
        axes = value.tolist()
    if isinstance(axes, (int, np.integer)):
        if not 0 <= axes <= min(rank_a, rank_b):
            raise ValueError(f"tensordot: ranks {rank_a} and {rank_b} do not have {axes} axes in common")
        return [*range(rank_a - int(axes), rank_a)], [*range(int(axes))]
    first, second = (np.atleast_1d(np.asarray(each, np.int64)).tolist() for each in axes)
    met = [normalise_axis(i, rank_a) for i in first], [normalise_axis(i, rank_b) for i in second]
    if len(met[0]) != len(met[1]) or any(len({*each}) < len(each) for each in met):
        raise ValueError(f"tensordot: axes {first} and {second} do not pair up")
    return met


def _as_matrix(x: Tensor, rows: list[int], columns: list[int]) -> Tensor:
    order = rows + columns
    sizes = [_tensordot_total(x, rows), _tensordot_total(x, columns)]
    if order != sorted(order):
        x = OPERATORS["transpose"](x, order)
    return x if len(rows) == len(columns) == 1 else OPERATORS["reshape"](x, sizes)


def _tensordot_size(x: Tensor, axis: int) -> Any:
    size = None if x.spec.sizes is None else x.spec.sizes[axis]
    return OPERATORS["shape"](x)[axis] if size is None else size


def _tensordot_total(x: Tensor, axes: list[int]) -> Any:
    """The product of the sizes: a number where it is known, else a tensor."""
    sizes = [x.spec.sizes[i] for i in axes] if x.spec.sizes is not None else []
    return reduce_prod(OPERATORS["gather"](OPERATORS["shape"](x), axes)) if None in sizes else math.prod(sizes)


OPERATORS["tensordot"] = tensordot
