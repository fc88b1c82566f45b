"""`af.test`: its test case runs tests that await, its comparisons fail where they should, its Jacobians are right."""

import unittest

import numpy as np
import pytest

import aioflow as af


class Example(af.test.TestCase):
    """Tests for the tests below: one passes, one fails."""

    __test__ = False

    async def test_that_passes(self):
        x = af.constant([1.0, 2.0])
        assert af.get_default_graph() is x.graph
        self.assertAllEqual((await self.evaluate({"x": x}))["x"], [1, 2])
        async with self.session():
            self.assertAllClose(await self.evaluate([x, x + 1.0]), [[1.0, 2.0], [2.0, 3.0]])
            with self.assertRaisesOpError("divi"):
                await self.evaluate(af.constant(1) // af.constant(0))
        assert af.gfile.IsDirectory(self.get_temp_dir())

    async def test_that_fails(self):
        self.assertAllEqual(await self.evaluate(af.constant([1, 2])), [1, 3])


@pytest.mark.real
def test_a_case_runs_tests_that_await_each_in_a_graph_of_its_own():
    result = unittest.TestResult()
    outer = af.get_default_graph()
    unittest.defaultTestLoader.loadTestsFromTestCase(Example).run(result)
    assert af.get_default_graph() is outer
    assert result.testsRun == 2
    assert result.errors == []
    assert [case.id().rpartition(".")[2] for case, _ in result.failures] == ["test_that_fails"]


@pytest.mark.parametrize(
    ("name", "holds", "fails"),
    [
        ("assertAllClose", ({"a": [1.0, [2.0]]}, {"a": [1.0, [2.0 + 1e-7]]}), ({"a": [1.0]}, {"a": [1.1]})),
        ("assertAllClose", ([1.0, [2.0, 3.0]], [1.0, [2.0, 3.0]]), ([1.0], [[1.0]])),
        ("assertAllCloseAccordingToType", (np.float16([1]), [1.0005]), (np.float32([1]), [1.0005])),
        ("assertNotAllClose", ([1.0], [1.1]), ([1.0], [1.0])),
        ("assertAllEqual", (["a"], [b"a"]), ([1], [2])),
        ("assertAllEqual", ([np.nan], [np.nan]), ([1], [[1]])),
        ("assertNotAllEqual", ([1], [2]), ([1], [1])),
        ("assertNear", (1.0, 1.05, 0.1), (1.0, 1.2, 0.1)),
        ("assertArrayNear", ([1.0], [1.05], 0.1), ([1.0], [1.2], 0.1)),
        ("assertAllGreater", ([2, 3], 1), ([1, 2], 1)),
        ("assertAllGreaterEqual", ([1, 2], 1), ([0, 2], 1)),
        ("assertAllLess", ([1, 2], 3), ([1, 3], 3)),
        ("assertAllLessEqual", ([1, 3], 3), ([1, 4], 3)),
        ("assertAllInRange", ([1, 3], 1, 3), ([1, 3], 1, 3, True)),
        ("assertAllInRange", ([2], 1, 3, True, True), ([1, 3], 1, 3, False, True)),
        ("assertAllInSet", ([1, 2], {1, 2, 3}), ([1, 4], {1, 2, 3})),
        ("assertDTypeEqual", (np.float32(1), af.float32), (np.float32(1), af.float64)),
        ("assertShapeEqual", ([[1, 2]], np.zeros([1, 2])), ([1, 2], np.zeros([1, 2]))),
        ("assertDeviceEqual", (None, ""), ("/device:CPU:0", "/device:CPU:1")),
        ("assertStartsWith", ("abc", "ab"), ("abc", "b")),
    ],
)
def test_a_comparison_holds_and_fails(name, holds, fails):
    case = af.test.TestCase()
    getattr(case, name)(*holds)
    with pytest.raises(AssertionError):
        getattr(case, name)(*fails)


def test_a_comparison_of_a_tensor_says_to_run_it():
    with af.Graph().as_default(), pytest.raises(TypeError, match=r"await self\.evaluate"):
        af.test.TestCase().assertAllEqual(af.constant(1), 1)


async def test_jacobians_by_gradients_and_by_differences():
    graph = af.Graph()
    with graph.as_default():
        x, w = af.placeholder(af.float64, [2]), af.placeholder(af.float64, [2, 3])
        scale = af.Variable(2.0, dtype=af.float64)
        y = scale * af.reshape(x, [1, 2]) @ w
        init = scale.initializer
        at = [np.array([1.0, 2.0]), np.arange(6.0).reshape(2, 3)]
        with pytest.raises(ValueError, match="needs a default session"):
            await af.test.compute_gradient(x, [2], y, [1, 3])
        async with af.Session(graph=graph):
            (exact, near), (other, _) = await af.test.compute_gradient(
                [x, w], [[2], [2, 3]], y, [1, 3], at, init_targets=init
            )
            assert exact.tolist() == (2 * at[1]).tolist()
            np.testing.assert_allclose(exact, near, atol=1e-6)
            assert other.shape == (6, 3)
            wrong = af.stop_gradient(x) * x
            assert await af.test.compute_gradient_error(x, [2], wrong, [2], at[0]) == pytest.approx(2.0, abs=1e-6)
            with pytest.raises(ValueError, match="does not depend on"):
                await af.test.compute_gradient(w, [2, 3], x, [2], extra_feed_dict={x: at[0]})


def test_graphs_are_compared_by_their_operations():
    def graph(value, name="b"):
        with af.Graph().as_default() as made:
            af.constant(1, name="a"), af.constant(value, name=name)
        return made.as_graph_def()

    swapped = af.GraphDef(tuple(reversed(graph(2).node)))
    af.test.assert_equal_graph_def(swapped, graph(2))
    with pytest.raises(AssertionError, match="operation 'b' is"):
        af.test.assert_equal_graph_def(graph(2), graph(3))
    with pytest.raises(AssertionError, match=r"first graph alone: \['b'\]; of the second alone: \['c'\]"):
        af.test.assert_equal_graph_def(graph(2), graph(2, "c"))
