"""Small names that programs of TensorFlow 1 use."""

import logging
from pathlib import Path

import numpy as np
import pytest

import aioflow as af
from tests.support.evaluate import evaluate


@pytest.fixture(autouse=True)
def graph():
    with af.Graph().as_default() as graph:
        yield graph


def test_the_switches_of_a_program_change_nothing():
    for switch in ("disable_eager_execution", "disable_v2_behavior", "enable_resource_variables"):
        assert getattr(af, switch)() is None
    assert not af.executing_eagerly()
    assert af.VERSION == af.version.VERSION == af.__version__


def test_static_values_are_known_before_a_run():
    x = af.placeholder(af.float32, [None, 3])
    assert af.get_static_value(af.constant([1, 2])).tolist() == [1, 2]
    assert af.get_static_value(af.shape(x)) is None
    assert af.get_static_value(af.shape(x), partial=True).tolist() == [None, 3]
    assert af.is_symbolic_tensor(x)
    assert not af.is_symbolic_tensor(np.zeros(3))
    assert af.dimension_at_index(x.shape, 1).value == 3


def test_scopes_take_their_arguments_in_the_old_order():
    with af.op_scope([af.constant(1)], None, "scope") as scope:
        assert scope == "scope/"
    with af.variable_op_scope([], "layer", regularizer=af.no_regularizer):
        variable = af.get_variable("w", [2])
    assert variable.name == "layer/w:0"
    assert af.get_collection(af.GraphKeys.REGULARIZATION_LOSSES) == []


def test_slices_stay_slices():
    slices = af.IndexedSlices(af.constant([[1.0]]), af.constant([0]))
    assert af.convert_to_tensor_or_indexed_slices(slices) is slices
    assert af.convert_to_tensor_or_indexed_slices([1.0]).dtype is af.float32
    with pytest.raises(ValueError, match="float32, not int32"):
        af.convert_to_tensor_or_indexed_slices(slices, af.int32)


def test_partitioners_cut_as_those_of_tensorflow():
    shapes = [10, 3], [2, 5], [1, 1], [100, 4]
    for partition, expected in (
        (af.fixed_size_partitioner(3), [[3, 1], [2, 1], [1, 1], [3, 1]]),
        (af.variable_axis_size_partitioner(100), [[2, 1], [1, 1], [1, 1], [17, 1]]),
        (af.variable_axis_size_partitioner(100, 1, max_shards=2), [[1, 2], [1, 1], [1, 1], [1, 2]]),
        (af.min_max_variable_partitioner(4, min_slice_size=64), [[2, 1], [1, 1], [1, 1], [4, 1]]),
        (af.variable_axis_size_partitioner(1), [[10, 1], [2, 1], [1, 1], [100, 1]]),
    ):
        assert [partition(shape, af.float32) for shape in shapes] == expected
    assert af.variable_axis_size_partitioner(100)([2, 5], af.string) == [2, 1]
    with pytest.raises(ValueError, match="max_partitions must be at least 1, not 0"):
        af.min_max_variable_partitioner(0)


def test_single_values_are_no_iterables():
    af.debugging.assert_proper_iterable([af.constant(1)])
    for value in (af.constant([1]), "text", np.zeros(2), 3):
        with pytest.raises(TypeError, match="an iterable such as a list is needed"):
            af.assert_proper_iterable(value)


def test_timestamps_are_those_of_the_run():
    assert 1.6e9 < evaluate(af.timestamp()) < 1e11


async def test_shapes_are_asserted_by_names_of_sizes(graph):
    x, y = af.placeholder(af.float32, [None, 3]), af.placeholder(af.float32)
    check = af.debugging.assert_shapes([(x, ("N", "Q")), (y, (..., "Q", "N")), (1.0, ())], message="my model")
    async with af.Session(graph=graph) as session:
        for shape in ((3, 2), (7, 3, 2)):
            await session.run(check, {x: np.zeros((2, 3)), y: np.zeros(shape)})
        for shape, text in (((3,), "the rank"), ((4, 2), "'Q'"), ((3, 3), "'N'")):
            with pytest.raises(af.errors.InvalidArgumentError, match=f"my model: .*{text}"):
                await session.run(check, {x: np.zeros((2, 3)), y: np.zeros(shape)})


def test_known_shapes_are_checked_when_the_assertion_is_built():
    x = af.placeholder(af.float32, [None, 3])
    for wanted, text in ((("N",), "the rank, x"), ((None, 4), "axis 1 of .*, 4, has size x")):
        with pytest.raises(af.errors.InvalidArgumentError, match=text):
            af.debugging.assert_shapes({x: wanted})
    with pytest.raises(ValueError, match="stands once, before or after"):
        af.debugging.assert_shapes([(x, ("N", ..., 3))])


def test_messages_go_to_the_logger(caplog):
    with caplog.at_level(logging.INFO, "aioflow"):
        assert af.logging.get_verbosity() == af.logging.INFO
        af.logging.info("step %d", 3)
        af.logging.debug("unseen")
        for turn in range(5):
            af.logging.log_every_n(af.logging.WARN, "every %d", 2, turn)
            af.logging.log_first_n(af.logging.ERROR, "first %d", 1, turn)
        af.logging.log_if(af.logging.WARN, "unseen", False)
    assert [record.getMessage() for record in caplog.records] == ["step 3", "every 0", "first 0", "every 2", "every 4"]
    assert {Path(record.pathname).name for record in caplog.records} == {Path(__file__).name}
    assert af.get_logger().name == "aioflow"


def test_resources_lie_beside_the_module_that_asks():
    here = Path(__file__)
    assert af.resource_loader.get_data_files_path() == str(here.parent)
    assert af.resource_loader.load_resource(here.name) == here.read_bytes()
    assert af.resource_loader.get_path_to_datafile("x.txt") == str(here.parent / "x.txt")
