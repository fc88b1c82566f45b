"""Ops on arrays of byte strings: join, split (to the rows of a sparse tensor), strip, change case, convert numbers.

A string is bytes. `unit="UTF8_CHAR"` or `encoding="utf-8"` makes an op work on characters instead of bytes.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from aioflow.graph.building import transactional
from aioflow.graph.composed import dispatching
from aioflow.graph.kernel import NodeView
from aioflow.graph.op import Ints, Op, op
from aioflow.graph.operation import Tensor
from aioflow.graph.params import renamed
from aioflow.kernels import known
from aioflow.kernels.array.arrays import reverse
from aioflow.kernels.array.dynamic_axes import reduced as reduced_along
from aioflow.kernels.array.shapes import reshape
from aioflow.kernels.families import CPU, TEXT, costs
from aioflow.kernels.math.broadcasting import Axis, axes_of, reduced
from aioflow.kernels.text.regex import compiled, rewriting
from aioflow.tensors import dtypes
from aioflow.tensors.dtypes import (
    BOOL,
    COMPLEX,
    FLOAT,
    INTEGER,
    STRING,
    Array,
    DType,
    Namespace,
    Spec,
    float32,
    int32,
)
from aioflow.tensors.object_arrays import copy_array, join_strings, map_elements, to_list, total_length

Function = Callable[..., Any]
_SMALL_GROWTH: Final = 1 << 20
"""Replacements of fewer bytes are made without counting them first."""
_UNITS: Final = ("BYTE", "UTF8_CHAR")
_NO_GRADIENT: Final = "text does not vary smoothly"


def each(function: Callable[[Any], Any], dtype: DType = dtypes.string) -> Callable[[Array], Array]:
    """`function` of one element as a function of arrays, of rank 0 too."""
    return functools.partial(map_elements, function, dtype.np)


def textual(name: str, doc: str, function: Callable[[bytes], bytes]) -> Op[Tensor]:
    """Declare an op of one string that gives one string."""

    def rule(input: Spec) -> Spec:
        return input.only(STRING)

    rule.__doc__ = doc
    made: Op[Tensor] = op(name=name)(rule)
    made.no_gradient(_NO_GRADIENT)
    made.kernel(CPU, fresh=True, binds=True)(lambda xp, node: each(function))
    costs(made, TEXT)
    return made


# Text and numbers


@op
def as_string(
    input: Spec,
    precision: int = -1,
    scientific: bool = False,
    shortest: bool = False,
    width: int = -1,
    fill: str = "",
) -> Spec:
    """Each element as text: integers by their digits, truth values as `true` and `false`, complex ones as `(re,im)`.

    Floats are written as C's `%f` does, with `scientific` as `%e`, with `shortest` as `%g`, with `precision` digits, in
    at least `width` characters, filled up with `fill`, which is one of C's flags: blank, 0, + or -.

    Examples:
        >>> await session.run(af.as_string([1.5, 2.0], precision=2))
        array([b'1.50', b'2.00'], dtype=object)
    """
    input.only(BOOL, INTEGER, FLOAT, COMPLEX)
    if scientific and shortest:
        raise ValueError("scientific and shortest exclude each other")
    if fill not in ("", " ", "0", "+", "-"):
        raise ValueError(f"fill is one of ' ', '0', '+' and '-', not {fill!r}")
    if input.dtype in BOOL | INTEGER and (scientific or shortest or precision >= 0):
        raise ValueError(f"precision, scientific and shortest are for floats, not for {input.dtype.name}")
    return input.with_dtype(dtypes.string)


@as_string.makes
def _(inputs: Sequence[Array], attrs: Any) -> int:
    return int(np.size(inputs[0])) * int(max(attrs["width"], attrs["precision"], 1))


@as_string.kernel(CPU, fresh=True, binds=True)
def _(xp: Namespace, node: NodeView) -> Function:
    dtype, attrs = node.input_specs[0].dtype, node.attrs
    width = f"{attrs['fill']}{attrs['width']}" if attrs["width"] >= 0 else attrs["fill"]
    if dtype.is_bool:
        return each(lambda item: (f"%{width.lstrip('0+')}s" % ("true" if item else "false")).encode())
    if dtype.is_integer:
        return each(lambda item: (f"%{width}d" % item).encode())
    digits = f".{attrs['precision']}" if attrs["precision"] >= 0 else ""
    form = f"%{width}{digits}{'e' if attrs['scientific'] else 'g' if attrs['shortest'] else 'f'}"
    if dtype.is_complex:
        return each(lambda item: f"({form % item.real},{form % item.imag})".encode())
    return each(lambda item: (form % item).encode())


@op
def string_to_number(string_tensor: Spec, out_type: DType = float32) -> Spec:
    """Parses each string as a number; surrounding blanks are ignored. InvalidArgumentError for any other text.

    Examples:
        >>> await session.run(af.string_to_number(["1.5", "2"]))
        array([1.5, 2. ], dtype=float32)
    """
    if out_type not in (float32, dtypes.float64, int32, dtypes.int64):
        raise TypeError(f"out_type is float32, float64, int32 or int64, not {out_type.name}")
    return string_tensor.only(STRING).with_dtype(out_type)


@string_to_number.kernel(CPU, fresh=True, binds=True)
def _(xp: Namespace, node: NodeView) -> Function:
    dtype = node.attrs["out_type"]
    spelled: Callable[[bytes], Any] = float if dtype.is_floating else int

    def number(text: bytes) -> Any:
        try:
            value = spelled(text)
        except ValueError:
            value = None
        if value is None or b"_" in text:
            raise ValueError(f"{text!r} is not a number of dtype {dtype.name}")
        if dtype.is_integer and not dtype.min <= value <= dtype.max:
            raise ValueError(f"{value} does not fit dtype {dtype.name}")
        return value

    return each(number, dtype)


# Lengths and parts


def _check_unit(unit: str) -> None:
    if unit not in _UNITS:
        raise ValueError(f"unit is one of {', '.join(_UNITS)}, not {unit!r}")


def _letters(text: bytes) -> str:
    """The bytes decoded as UTF-8; an invalid byte counts as one character."""
    return text.decode("utf-8", "surrogateescape")


@op
def string_length(input: Spec, name: str | None = None, unit: str = "BYTE") -> Spec:
    """The number of bytes of each string, or with unit UTF8_CHAR of its letters.

    Examples:
        >>> await session.run(af.string_length(["abc", ""]))
        array([3, 0], dtype=int32)
    """
    _check_unit(unit)
    return input.only(STRING).with_dtype(int32)


@string_length.kernel(CPU, fresh=True, binds=True)
def _(xp: Namespace, node: NodeView) -> Function:
    return each(len if node.attrs["unit"] == "BYTE" else lambda text: len(_letters(text)), int32)


@op
def substr(input: Spec, pos: Ints, len: Ints, name: str | None = None, unit: str = "BYTE") -> Spec:
    """The part of each string that begins at `pos` and has `len` bytes, or letters with unit UTF8_CHAR, or fewer.

    A negative position counts from the end. All three are broadcast together. InvalidArgumentError if a position lies
    outside its string.

    Examples:
        >>> await session.run(af.substr(["hello"], 1, 3))
        array([b'ell'], dtype=object)
    """
    _check_unit(unit)
    known.integers(pos, "pos").same_dtype(known.integers(len, "len"))
    return Spec(input.only(STRING).dtype, Spec(input.dtype, input.broadcast(pos)).broadcast(len))


@substr.kernel(CPU, fresh=True, binds=True)
def _(xp: Namespace, node: NodeView) -> Function:
    letters = node.attrs["unit"] == "UTF8_CHAR"

    def part(text: bytes, pos: int, length: int) -> Any:
        whole: Any = _letters(text) if letters else text
        if not -len(whole) <= pos <= len(whole):
            raise ValueError(f"position {pos} is outside {text!r}, which has {len(whole)}")
        begin = pos + len(whole) if pos < 0 else pos
        found: Any = whole[begin : begin + max(length, 0)]
        return found.encode("utf-8", "surrogateescape") if letters else found

    return functools.partial(map_elements, part, object)


# Changed element by element

string_strip: Final = textual(
    "string_strip",
    """Each string without blanks, tabs and line ends around it.

    Examples:
        >>> await session.run(af.string_strip(["  a "]))
        array([b'a'], dtype=object)
    """,
    bytes.strip,
)


def _cased(name: str, function: str, doc: str) -> Op[Tensor]:
    def rule(input: Spec, encoding: str = "") -> Spec:
        if encoding not in ("", "utf-8"):
            raise ValueError(f"encoding is '' or 'utf-8', not {encoding!r}")
        return input.only(STRING)

    rule.__doc__ = f"""{doc} Only those of ASCII, or with encoding utf-8 all.

    Examples:
        >>> await session.run(af.{name}(["Abc"]))
        array([{getattr(b"Abc", function)()}], dtype=object)
    """
    made: Op[Tensor] = op(name=name)(rule)

    @made.kernel(CPU, fresh=True, binds=True)
    def _(xp: Namespace, node: NodeView) -> Function:
        if not node.attrs["encoding"]:
            return each(getattr(bytes, function))
        change = getattr(str, function)
        return each(lambda text: change(_letters(text)).encode("utf-8", "surrogateescape"))

    return made


string_lower: Final = _cased("string_lower", "lower", "Each string with small letters for capital ones.")
string_upper: Final = _cased("string_upper", "upper", "Each string with capital letters for small ones.")


@op
def regex_replace(input: Spec, pattern: str, rewrite: str, replace_global: bool = True) -> Spec:
    r"""Each string with all matches of `pattern`, or only the first, replaced by `rewrite`.

    `pattern` is a regular expression of RE2, on UTF-8; `\0` to `\9` in `rewrite` stand for the match and its groups.
    Matching takes time linear in the string. Without the package google-re2 (aioflow-engine[re2]) all but simple
    expressions raise UnimplementedError: see `regex`.

    Examples:
        >>> await session.run(af.regex_replace(["a1b22"], "[0-9]+", "-"))
        array([b'a-b-'], dtype=object)
    """
    rewriting(compiled(pattern), rewrite)
    return input.only(STRING)


@regex_replace.makes
def _(inputs: Sequence[Array], attrs: Any) -> int:
    """The length of the input unless the rewrite can make it several times as long: then the matches are counted."""
    expression, everywhere = compiled(attrs["pattern"]), attrs["replace_global"]
    rewrite = rewriting(expression, attrs["rewrite"])
    length, count = total_length(inputs[0]), int(np.size(inputs[0]))
    groups = sum([isinstance(part, int) for part in rewrite])
    literals = sum([len(part.encode()) for part in rewrite if isinstance(part, str)])
    most = length * (1 + groups) + (count + (length if everywhere else 0)) * literals
    if most <= max(_SMALL_GROWTH, 4 * length):
        return length
    lengths = map_elements(lambda text: expression.replaced_length(text, rewrite, everywhere), np.int64, inputs[0])
    return int(np.sum(lengths))


@regex_replace.kernel(CPU, fresh=True, binds=True)
def _(xp: Namespace, node: NodeView) -> Function:
    expression, everywhere = compiled(node.attrs["pattern"]), node.attrs["replace_global"]
    rewrite = rewriting(expression, node.attrs["rewrite"])
    return each(lambda text: expression.replace(text, rewrite, everywhere))


@op
def regex_full_match(input: Spec, pattern: str) -> Spec:
    """Whether the whole of each string matches `pattern`, a regular expression as for `regex_replace`.

    Examples:
        >>> await session.run(af.regex_full_match(["cat", "cats"], "c.t"))
        array([ True, False])
    """
    compiled(pattern)
    return input.only(STRING).with_dtype(dtypes.bool_)


@regex_full_match.kernel(CPU, fresh=True, binds=True)
def _(xp: Namespace, node: NodeView) -> Function:
    return each(compiled(node.attrs["pattern"]).matches, dtypes.bool_)


# Joined


@op
def string_join(inputs: Sequence[Spec], separator: str = "") -> Spec:
    """The strings at one place of all inputs, joined; inputs of rank 0 are used at every place.

    Examples:
        >>> await session.run(af.string_join([["a", "b"], ["x", "y"]], separator=":"))
        array([b'a:x', b'b:y'], dtype=object)
    """
    if not inputs:
        raise ValueError("at least one input is needed")
    whole = inputs[0].only(STRING)
    for spec in inputs[1:]:
        spec.only(STRING)
        if spec.rank is None or whole.rank is None:
            whole = Spec(whole.dtype)
        elif spec.rank and whole.rank:
            whole = whole.with_shape(whole.shape.merge_with(spec.shape))
        elif spec.rank:
            whole = spec
    return whole


@string_join.makes
def _(inputs: Sequence[Array], attrs: Any) -> int:
    count = max([int(np.size(each)) for each in inputs])
    lengths = [total_length(each) * (1 if np.ndim(each) else count) for each in inputs]
    return sum(lengths) + len(attrs["separator"].encode()) * (len(inputs) - 1) * count


@string_join.kernel(CPU, fresh=True, binds=True)
def _(xp: Namespace, node: NodeView) -> Function:
    separator = node.attrs["separator"].encode()

    def together(inputs: Sequence[Array]) -> Array:
        sizes = {np.shape(item) for item in inputs if np.ndim(item)}
        if len(sizes) > 1:
            raise ValueError(f"strings of shapes {', '.join(str(list(size)) for size in sizes)} cannot be joined")
        return map_elements(lambda *parts: separator.join(parts), object, *inputs)

    return together


@op(name="reduce_join")
def _reduce_join(inputs: Spec, axis: Axis, keep_dims: bool = False, separator: str = "") -> Spec:
    """The strings joined along one axis after the other, all axes from the last to the first if None."""
    return inputs.only(STRING).with_shape(reduced(inputs, axis, keep_dims))


@_reduce_join.dynamic("axis")
def _(inputs: Tensor, axis: Tensor, keep_dims: bool, separator: str) -> Tensor:
    return reduced_along(_reduce_join, inputs, reverse(reshape(axis, [-1]), [0]), keep_dims, separator)


@_reduce_join.makes
def _(inputs: Sequence[Array], attrs: Any) -> int:
    return total_length(inputs[0]) + len(attrs["separator"].encode()) * int(np.size(inputs[0]))


@_reduce_join.kernel(CPU, fresh=True, binds=True)
def _(xp: Namespace, node: NodeView) -> Function:
    axis, keep, separator = node.attrs["axis"], node.attrs["keep_dims"], node.attrs["separator"].encode()

    def along(inputs: Array) -> Array:
        x = copy_array(np.asarray(inputs, object))
        axes = axes_of(axis, x.ndim)[:: -1 if axis is None else 1]
        for place in axes:
            x = np.expand_dims(_joined_along(x, place, separator), place)
        return x if keep else x.reshape([size for i, size in enumerate(x.shape) if i not in axes])

    return along


def _joined_along(x: Array, axis: int, separator: bytes) -> Array:
    rows = np.moveaxis(x, axis, -1)
    result = np.empty(rows.shape[:-1], object)
    for place in np.ndindex(result.shape):
        result[place] = join_strings(separator, to_list(rows[place]))
    return result


@transactional
@dispatching
def reduce_join(
    inputs: Any,
    axis: int | Sequence[int] | None = None,
    keep_dims: bool | None = None,
    separator: str = "",
    name: str | None = None,
    reduction_indices: Any = None,
    keepdims: bool | None = None,
) -> Tensor:
    """The strings joined along the axes, in the given order of axes; along all axes, by rows, if none is given.

    `reduce_join([["a", "b"], ["c", "d"]], [0, 1])` is `acbd`, with [1, 0] or no axes `abcd`.

    Examples:
        >>> await session.run(af.reduce_join(["a", "b", "c"], separator="-"))
        b'a-b-c'
    """
    chosen, keep = renamed("axis", axis, reduction_indices), renamed("keepdims", keepdims, keep_dims)
    return _reduce_join(inputs, chosen, bool(keep), separator, name=name)


for _op in (
    as_string, string_to_number, string_length, substr, string_lower, string_upper, regex_replace, regex_full_match,
    string_join, _reduce_join,
):  # fmt: skip
    _op.no_gradient(_NO_GRADIENT)
    costs(_op, TEXT)
