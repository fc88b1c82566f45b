"""DType, Dimension, TensorShape and Spec."""

import copy
import itertools
import pickle

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aioflow.tensors import dtypes
from aioflow.tensors.dtypes import (
    SCALAR,
    UNKNOWN,
    Dimension,
    DType,
    ResourceSpec,
    Spec,
    TensorShape,
    as_dtype,
    as_shape,
    broadcast_shapes,
    normalise_axis,
    spec_of,
)
from aioflow.tensors.shape import dimension_value

SIZES = st.none() | st.lists(st.none() | st.integers(0, 3), max_size=3)
SHAPES = SIZES.map(TensorShape)


# DType


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (dtypes.int8, "int8"),
        ("bfloat16", "bfloat16"),
        ("half", "float16"),
        ("float", "float32"),
        ("double", "float64"),
        ("bool", "bool"),
        (">f4", "float32"),
        ("S10", "string"),
        (bool, "bool"),
        (int, "int32"),
        (float, "float32"),
        (complex, "complex128"),
        (str, "string"),
        (bytes, "string"),
        (object, "string"),
        (np.float64, "float64"),
        (np.dtype("<i2"), "int16"),
        (np.dtype("U3"), "string"),
        (np.object_, "string"),
        (ml_dtypes.bfloat16, "bfloat16"),
        (np.dtype(ml_dtypes.float8_e5m2), "float8_e5m2"),
    ],
)
def test_as_dtype_takes_names_and_the_types_of_numpy_and_python(given, expected):
    assert as_dtype(given).name == expected


@pytest.mark.parametrize("given", [None, dict, np.ndarray, 3, "float31", "a,b", "(2,", [("a", int)], np.void, "M8[s]"])
def test_as_dtype_refuses_what_is_no_dtype(given):
    with pytest.raises(TypeError, match="is not a dtype of aioflow"):
        as_dtype(given)


@pytest.mark.parametrize("dtype", dtypes.EVERY, ids=str)
def test_a_dtype_is_found_by_its_name_and_is_one_object(dtype):
    assert as_dtype(dtype.name) is dtype
    assert pickle.loads(pickle.dumps(dtype)) is copy.deepcopy(dtype) is dtype
    if dtype.family not in ("string", "resource"):
        assert as_dtype(dtype.np) is as_dtype(dtype.as_numpy_dtype) is dtype
        assert dtype.size == dtype.np.itemsize


def test_a_dtype_equals_what_stands_for_it_and_nothing_else():
    assert dtypes.float32 == "float32"
    assert dtypes.float32 == np.float32
    assert dtypes.float64 != None  # noqa: E711
    assert dtypes.float32 != dtypes.float64
    assert dtypes.float32 != object()
    assert len({dtypes.float32, as_dtype("float32")}) == 1


def test_every_dtype_is_in_one_family():
    flags = ("is_floating", "is_complex", "is_integer", "is_bool")
    for dtype in dtypes.ALL:
        assert sum(getattr(dtype, flag) for flag in flags) == (dtype.family not in ("string", "resource"))
    assert dtypes.INTEGER | dtypes.FLOAT | dtypes.COMPLEX == dtypes.NUMERIC == {d for d in dtypes.ALL if d.is_numeric}


def test_limits_are_those_of_numpy():
    assert (dtypes.int8.min, dtypes.uint16.max) == (-128, 65535)
    assert float(dtypes.float8_e4m3fn.max) == 448.0
    assert dtypes.float16.min == np.finfo(np.float16).min
    with pytest.raises(TypeError, match="bool has no maximum"):
        _ = dtypes.bool_.max


def test_the_real_part_of_a_complex_dtype_is_a_float():
    assert dtypes.complex64.real is dtypes.complex64.real_dtype is dtypes.float32
    assert dtypes.int8.real is dtypes.int8.base_dtype is dtypes.int8
    assert dtypes.int8.is_compatible_with("int8")
    assert (dtypes.string.is_numpy_compatible, dtypes.resource.is_numpy_compatible) == (True, False)


# Dimension


def test_arithmetic_on_dimensions():
    two, unknown = Dimension(2), Dimension(None)
    assert [two + 1, 1 + two, two * 3, 3 * two, 5 - two, two - 1, 7 // two, two // 2, 5 % two, two % 2] == [
        3, 3, 6, 6, 3, 1, 3, 1, 1, 0,
    ]  # fmt: skip
    assert [unknown + 1, two * unknown, two - None] == [None, None, None]
    assert (two < 3, two >= Dimension(2), unknown > 1) == (True, True, None)
    assert int(two) == 2
    assert [0, 1, 2][two] == 2


def test_dimensions_refuse_what_is_no_size():
    for wrong in (1.5, "2", [2]):
        with pytest.raises(TypeError):
            Dimension(wrong)
        with pytest.raises(TypeError):
            Dimension(2) + wrong
    with pytest.raises(ValueError, match="cannot be negative: -1"):
        Dimension(1) - 2
    with pytest.raises(TypeError, match="has no integer value"):
        int(Dimension(None))


def test_dimensions_merge_if_they_are_compatible():
    assert Dimension(None).merge_with(3) == Dimension(3).merge_with(None) == 3
    assert Dimension(3).is_compatible_with(None)
    Dimension(3).assert_is_compatible_with(None)
    with pytest.raises(ValueError, match="sizes 3 and 4 are not compatible"):
        Dimension(3).assert_is_compatible_with(4)
    with pytest.raises(ValueError, match="dimensions 3 and 4 are not compatible"):
        Dimension(3).merge_with(4)


# TensorShape


def test_unknown_rank_and_unknown_size_are_distinct():
    assert TensorShape(None) != TensorShape([None])
    assert TensorShape(None).ndims is None
    assert TensorShape([None]).ndims == TensorShape([None]).rank == 1
    assert str(TensorShape([None, 2])) == "[?, 2]"
    assert str(TensorShape(None)) == "<unknown>"


@pytest.mark.parametrize(
    ("given", "sizes"),
    [
        (None, None),
        ((), ()),
        (3, (3,)),
        (np.int64(3), (3,)),
        ([2, None], (2, None)),
        ((Dimension(2), np.int32(3)), (2, 3)),
        (np.array([4, 5]), (4, 5)),
        (TensorShape([1]), (1,)),
        (TensorShape.scalar(), ()),
        (TensorShape.vector(None), (None,)),
        (TensorShape.matrix(2, 3), (2, 3)),
    ],
)
def test_shapes_are_made_of_sizes(given, sizes):
    assert as_shape(given).sizes == TensorShape(given).sizes == sizes


@pytest.mark.parametrize(
    ("wrong", "error"), [([-1], ValueError), ([1.5], TypeError), ("ab", TypeError), (2.0, TypeError)]
)
def test_shapes_refuse_what_is_no_size(wrong, error):
    with pytest.raises(error):
        TensorShape(wrong)
    assert TensorShape([2]) != wrong


def test_what_is_asked_of_a_shape():
    shape = TensorShape([2, None, 3])
    assert shape.dims == [2, None, 3]
    assert shape.as_list() == [2, None, 3]
    assert shape.num_elements() is None
    assert TensorShape([2, 3]).num_elements() == 6
    assert TensorShape([]).num_elements() == 1
    assert len(shape) == 3
    assert list(shape) == [2, None, 3]
    assert (shape[0], shape[-1], shape[1:]) == (2, 3, TensorShape([None, 3]))
    assert not shape.is_fully_defined()
    with pytest.raises(ValueError, match=r"shape \[2, \?, 3\] is not fully defined"):
        shape.assert_is_fully_defined()


def test_what_cannot_be_asked_of_unknown_rank():
    assert not UNKNOWN
    assert TensorShape([])
    assert UNKNOWN[0] == Dimension(None)
    assert UNKNOWN[1:] == UNKNOWN
    for ask in (TensorShape.as_list, len, list):
        with pytest.raises(ValueError, match="unknown rank"):
            ask(UNKNOWN)


@given(SHAPES)
def test_the_plain_form_says_all(shape):
    assert TensorShape.from_plain(shape.as_plain()) == shape


def test_the_plain_form_writes_an_unknown_size_as_minus_one():
    assert TensorShape([2, None]).as_plain() == [2, -1]
    assert TensorShape(None).as_plain() is None
    with pytest.raises(ValueError, match="negative"):
        TensorShape.from_plain([-2])


def could_have(shape, sizes):
    return shape.sizes is None or (
        len(shape.sizes) == len(sizes) and all(a is None or a == b for a, b in zip(shape.sizes, sizes, strict=True))
    )


CONCRETE = [sizes for rank in range(4) for sizes in itertools.product(range(4), repeat=rank)]


@given(SHAPES, SHAPES)
def test_merging_keeps_just_the_shapes_that_both_could_have(a, b):
    both = [sizes for sizes in CONCRETE if could_have(a, sizes) and could_have(b, sizes)]
    assert a.is_compatible_with(b) == b.is_compatible_with(a) == bool(both)
    if not both:
        with pytest.raises(ValueError, match="not compatible"):
            a.merge_with(b)
        return
    merged = a.merge_with(b)
    assert [sizes for sizes in CONCRETE if could_have(merged, sizes)] == both


@given(SHAPES, SHAPES)
def test_merging_gives_the_very_shape_where_nothing_is_new(a, b):
    if a.is_compatible_with(b) and a.merge_with(b) == a:
        assert a.merge_with(b) is a


@given(SHAPES, SHAPES)
def test_broadcasting_agrees_with_numpy_on_every_shape_that_could_be(a, b):
    try:
        found = broadcast_shapes(a, b)
    except ValueError:
        found = None
    for x, y in itertools.product(CONCRETE, repeat=2):
        if could_have(a, x) and could_have(b, y) and len(x) + len(y) < 4:
            try:
                real = np.broadcast_shapes(x, y)
            except ValueError:
                continue
            assert found is not None
            assert could_have(found, real)


def test_shapes_that_cannot_be_broadcast_are_named():
    with pytest.raises(ValueError, match=r"shapes \[2, \?\] and \[3, 1\] cannot be broadcast together"):
        broadcast_shapes(TensorShape([2, None]), TensorShape([3, 1]))


def test_broadcasting_to_one_operand_gives_its_very_shape():
    whole = TensorShape([None, 3])
    for part in (TensorShape([3]), TensorShape([1]), TensorShape([]), TensorShape([1, 3]), whole):
        assert broadcast_shapes(whole, part) is broadcast_shapes(part, whole) is whole
    assert broadcast_shapes(whole, TensorShape([None, 3])) is not whole


def test_concatenating_and_asking_for_a_rank():
    assert TensorShape([2]).concatenate([None]) == TensorShape([2, None])
    assert TensorShape([2]).concatenate(None) == UNKNOWN
    assert UNKNOWN.with_rank(2) == TensorShape([None, None])
    with pytest.raises(ValueError, match="not compatible"):
        TensorShape([2]).with_rank(2)


def test_axes_count_from_either_end():
    assert (normalise_axis(-1, 3), normalise_axis(2, 3), normalise_axis(-5, None)) == (2, 2, -5)
    with pytest.raises(ValueError, match="axis 3 is out of range for rank 3"):
        normalise_axis(3, 3)
    with pytest.raises(ValueError, match="axis 0 is out of range for rank 0"):
        normalise_axis(0, 0)


# Spec


def test_a_spec_says_what_it_is():
    assert str(Spec(dtypes.float32, TensorShape([None, 2]))) == "float32[?, 2]"
    assert str(Spec(dtypes.string)) == "string"
    assert str(ResourceSpec((Spec(dtypes.int8, SCALAR),))) == "resource(int8[])"
    assert Spec(dtypes.float64, TensorShape([3])).bytes == 24
    assert Spec(dtypes.float64).bytes is Spec(dtypes.float64).rank is None


def test_a_spec_refuses_wrong_dtypes_and_ranks():
    spec = Spec(dtypes.int8, TensorShape([2]), known=(1, 2))
    with pytest.raises(TypeError, match="int8 is not supported; use one of bfloat16, float16"):
        spec.only(dtypes.FLOAT)
    with pytest.raises(TypeError, match="dtypes int8 and bool differ"):
        spec.same_dtype(Spec(dtypes.bool_))
    with pytest.raises(ValueError, match=r"rank 1 is needed, the shape is \[2, 2\]"):
        spec.with_shape([2, 2]).with_rank(1)
    with pytest.raises(TypeError, match="a handle to a resource is needed, not int8"):
        ResourceSpec.check(spec)
    with pytest.raises(ValueError, match=r"^filter: rank 1 is needed, the shape is \[2, 2\]"):
        spec.with_shape([2, 2]).with_rank(1, "filter")
    assert spec.with_rank(1).known == (1, 2)
    assert spec.only(dtypes.SIGNED).known is None


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (np.zeros((2, 0), np.int16), "int16[2, 0]"),
        (np.float32(1), "float32[]"),
        (np.array([b"a"], object), "string[1]"),
        (object(), "resource[]"),
    ],
)
def test_the_spec_of_a_value(value, text):
    assert str(spec_of(value)) == text


def test_a_dtype_prints_as_users_write_it():
    assert isinstance(dtypes.float32, DType)
    assert repr(dtypes.float32) == "af.float32"


@pytest.mark.parametrize(
    ("method", "sizes", "good", "bad", "text"),
    [
        ("with_rank_at_least", [2, None], 2, 3, "rank 3 or more is needed"),
        ("with_rank_at_most", [2, None], 2, 1, "rank 1 or less is needed"),
        ("assert_has_rank", [2, None], 2, 1, "rank 1 is needed, the shape is"),
        ("assert_same_rank", [2, None], [3, 3], [2], r"shapes \[2, \?\] and \[2\] differ in rank"),
        ("assert_is_compatible_with", [2, None], [None, 3], [3, None], "are not compatible"),
    ],
)
def test_a_shape_is_checked(method, sizes, good, bad, text):
    shape = TensorShape(sizes)
    assert getattr(shape, method)(good) in (shape, None)
    assert getattr(UNKNOWN, method)(bad) in (UNKNOWN, None)
    with pytest.raises(ValueError, match=text):
        getattr(shape, method)(bad)


@pytest.mark.parametrize(
    ("a", "b", "shared"),
    [
        ([2, 3], [2, 3], [2, 3]), ([2, 3], [2, 4], [2, None]), ([2, None], [2, None], [2, None]), ([2], [2, 3], None),
        (None, [2], None), ([], [], []),
    ],
)  # fmt: skip
def test_shapes_share_what_is_the_same(a, b, shared):
    assert TensorShape(a).most_specific_compatible_shape(b) == TensorShape(shared)
    assert TensorShape(b).most_specific_compatible_shape(a) == TensorShape(shared)


def test_a_dimension_is_a_number_or_none():
    assert [dimension_value(size) for size in (Dimension(2), Dimension(None), 3, None)] == [2, None, 3, None]


@pytest.mark.parametrize(
    ("name", "limits"), [("bool", (False, True)), ("float32", (0, 1)), ("uint8", (0, 255)), ("int16", (0, 32767))]
)
def test_brightness_goes_from_black_to_white(name, limits):
    assert as_dtype(name).limits == limits
    with pytest.raises(TypeError, match="complex64 has no maximum"):
        _ = dtypes.complex64.limits
