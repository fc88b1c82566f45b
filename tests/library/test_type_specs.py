"""Descriptions of values: type_specs.py."""

import numpy as np
import pytest

import aioflow as af
from aioflow.data import Dataset, DatasetSpec
from aioflow.data.experimental import Optional, SparseTensorStructure, TensorArrayStructure, TensorStructure

SPEC = af.TensorSpec


def test_a_value_has_the_description_of_tensorflow():
    with af.Graph().as_default():
        slices = af.IndexedSlices(af.zeros([2, 3]), af.constant([0, 1]), af.constant([5, 3]))
        sparse = af.SparseTensor([[0]], [1.0], [3])
        for value, expected in [
            (af.constant([1.0, 2.0]), SPEC([2])),
            (af.Variable([1.0], name="v"), SPEC([1])),
            (np.zeros(3, np.int32), SPEC([3], af.int32)),
            ("a", SPEC([], af.string)),
            (sparse, af.SparseTensorSpec([3])),
            (
                af.SparseTensorValue(np.array([[0]]), np.array([1.0], np.float32), np.array([3])),
                af.SparseTensorSpec([3]),
            ),
            (slices, af.IndexedSlicesSpec([5, 3], af.float32, af.int32, af.int32, [2])),
            (af.TensorArray(af.float32, 2, element_shape=[4]), af.TensorArraySpec([4])),
            (None, af.NoneTensorSpec()),
            (Dataset.range(3), DatasetSpec(SPEC([], af.int64))),
            (Optional.from_value((1, "a")), af.OptionalSpec((SPEC([], af.int32), SPEC([], af.string)))),
        ]:
            assert af.type_spec_from_value(value) == expected
            assert expected.is_compatible_with(value)
        with pytest.raises(TypeError):
            af.type_spec_from_value(object())
        assert not SPEC([]).is_compatible_with(object())


def test_descriptions_are_values_that_compare_and_combine():
    assert SPEC([None, 2]) == SPEC([None, 2])
    assert hash(SPEC([2])) == hash(SPEC([2]))
    assert SPEC([2], name="a") != SPEC([2])
    assert SPEC([2], name="a").is_compatible_with(SPEC([2]))
    assert SPEC([None, 2]).is_compatible_with(SPEC([3, 2]))
    assert not SPEC([2]).is_compatible_with(af.SparseTensorSpec([2]))
    assert not SPEC([2]).is_compatible_with(SPEC([2], af.int32))
    assert SPEC([3, 2]).most_specific_compatible_type(SPEC([4, 2])) == SPEC([None, 2])
    assert SPEC([3, 2]).most_specific_compatible_type(SPEC([4])) == SPEC(None)
    assert SPEC([3]).most_specific_common_supertype([SPEC([4]), SPEC([3])]) == SPEC([None])
    assert SPEC([3]).most_specific_common_supertype([SPEC([3], af.int32)]) is None
    assert SPEC([3, 2]).is_subtype_of(SPEC([None, 2]))
    assert not SPEC([None]).is_subtype_of(SPEC([3]))
    with pytest.raises(ValueError, match="no description has the values of both"):
        SPEC([3]).most_specific_compatible_type(SPEC([3], af.int32))
    with pytest.raises(AttributeError):
        SPEC([3]).shape = None


def test_descriptions_of_structures_compare_part_by_part():
    one = DatasetSpec({"a": SPEC([3]), "b": (SPEC([2]), SPEC([]))})
    other = DatasetSpec({"a": SPEC([4]), "b": (SPEC([2]), SPEC([]))})
    assert not one.is_compatible_with(other)
    assert one.most_specific_compatible_type(other) == DatasetSpec({"a": SPEC([None]), "b": (SPEC([2]), SPEC([]))})
    assert one.most_specific_common_supertype([DatasetSpec({"a": SPEC([3])})]) is None
    assert not af.OptionalSpec((SPEC([]),)).is_compatible_with(af.OptionalSpec(SPEC([])))


def test_descriptions_are_made_of_others_and_of_values():
    with af.Graph().as_default():
        tensor = af.constant([1.0], name="tea")
        assert SPEC.from_tensor(tensor) == SPEC([1], name="tea")
        assert SPEC.from_spec(SPEC([2], name="a"), "b") == SPEC([2], name="b")
        assert af.SparseTensorSpec.from_value(af.SparseTensor([[0]], [1], [3])) == af.SparseTensorSpec([3], af.int32)
        assert af.TensorArraySpec.from_value(af.TensorArray(af.int32, 2)).dtype is af.int32
        assert af.OptionalSpec.from_value(Optional.empty(SPEC([]))) == af.OptionalSpec(SPEC([]))
    for make, wrong in [
        (SPEC.from_tensor, [1]),
        (af.SparseTensorSpec.from_value, 1),
        (af.TensorArraySpec.from_value, 1),
        (af.OptionalSpec.from_value, 1),
    ]:
        with pytest.raises(TypeError, match="describes"):
            make(wrong)
    assert TensorStructure(af.int32, [2]) == SPEC([2], af.int32)
    assert SparseTensorStructure(af.int32, [2]) == af.SparseTensorSpec([2], af.int32)
    assert TensorArrayStructure(af.int32, [2], True, False) == af.TensorArraySpec([2], af.int32, True, False)
