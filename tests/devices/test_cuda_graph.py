"""Kernels launched as one give equal results while inputs move and results are held or freed."""

import gc
import logging
import weakref

import numpy as np
import pytest

from aioflow import errors
from aioflow.devices import cuda_graph
from aioflow.devices.cuda_graph import GraphLauncher
from aioflow.devices.gpu import Gpu
from aioflow.testing.fake_gpu import FakeGpu
from aioflow.testing.fake_memory import Pool
from aioflow.testing.fake_streams import GpuFailure, Machine, OutOfMemory, Race

NAME = "/job:localhost/replica:0/task:0/device:GPU:0"


def opened(driver):
    return Gpu(driver, NAME)


@pytest.fixture
def gpu():
    gpu = opened(FakeGpu(Machine()))
    yield gpu
    gc.collect()
    gpu.driver.machine.run()
    assert gpu.close()
    gpu.driver.machine.check()
    assert gpu.driver.used == 0


class Region:
    """Kernels of a GPU that are launched together where that is possible."""

    def __init__(self, gpu, kernels):
        self.gpu = gpu
        self.launches = 0
        self._kernels = kernels
        self._launcher = GraphLauncher(gpu, "the kernels")

    def __call__(self, *inputs):
        with self.gpu:
            launched = self.gpu.driver.machine.launches
            before = launched.total()
            results = self._launcher.launch(self._kernels, inputs)
            if results is None:
                results = self._kernels(*inputs)
            self.launches = launched.total() - before
        return results


def chained(x, w):
    """Four kernels, the values between in memory that the graph uses again."""
    y = x * 2
    y = y + w
    y = y * y
    return [y - x]


def expected(x, w):
    return (x * 2 + w) ** 2 - x


def on(gpu, *values):
    return [gpu.copy_in(np.asarray(value, np.float64)) for value in values]


def at_host(gpu, value):
    found = gpu.peek(value)
    gpu.sweep()
    return found


# Launches


def test_many_launches_become_one_and_the_results_stay_equal(gpu):
    region = Region(gpu, chained)
    w = np.arange(5.0)
    (weights,) = on(gpu, w)
    launches = []
    for step in range(10):
        x = np.linspace(0, step, 5)
        (there,) = on(gpu, x)
        (found,) = region(there, weights)
        launches.append(region.launches)
        np.testing.assert_array_equal(at_host(gpu, found), expected(x, w))
        del there, found
    assert launches == [4, *[1] * 9]
    assert gpu.graphs.captures == 1
    assert gpu.driver.machine.copies["D2D"] == 0


def test_an_input_at_other_addresses_is_copied_into_the_graph(gpu):
    region = Region(gpu, chained)
    w = np.arange(5.0)
    (weights,) = on(gpu, w)
    kept = []  # so that each input has an address of its own
    for step in range(6):
        x = np.full(5, float(step))
        kept += on(gpu, x)
        (found,) = region(kept[-1], weights)
        np.testing.assert_array_equal(at_host(gpu, found), expected(x, w))
        del found
    assert region.launches == 1
    assert gpu.graphs.captures == 1
    assert gpu.driver.machine.copies["D2D"] == 5  # the input that moves, but never the weights


def test_an_input_that_moves_late_costs_one_more_capture(gpu):
    region = Region(gpu, chained)
    x, w = np.arange(3.0), np.ones(3)
    inputs, others = on(gpu, x, w), on(gpu, x + 5, w - 3)
    for _ in range(3):
        region(*inputs)
    assert gpu.graphs.captures == 1
    for _ in range(3):
        (found,) = region(*others)
        np.testing.assert_array_equal(at_host(gpu, found), expected(x + 5, w - 3))
        del found
        (found,) = region(*inputs)
        np.testing.assert_array_equal(at_host(gpu, found), expected(x, w))
        del found
    assert gpu.graphs.captures == 2


def test_inputs_are_not_held(gpu):
    region = Region(gpu, chained)
    inputs = on(gpu, np.arange(4.0), np.ones(4))
    for _ in range(3):
        region(*inputs)
    held = [weakref.ref(value) for value in inputs]
    del inputs
    gc.collect()
    assert [ref() for ref in held] == [None, None]


def test_a_transposed_input_and_a_transposed_result_have_the_right_values(gpu):
    region = Region(gpu, lambda x, w: [((x + w) * 2).T])
    x = np.arange(6.0).reshape(2, 3)
    kept = []
    for step in range(4):
        kept += on(gpu, x + step)
        with gpu:
            turned = kept[-1].T
        (weights,) = on(gpu, np.ones((3, 2)))
        (found,) = region(turned, weights)
        np.testing.assert_array_equal(at_host(gpu, found), ((x + step).T + 1).T * 2)
        del found


# Results


def test_results_that_are_held_keep_their_values(gpu):
    region = Region(gpu, chained)
    w = np.ones(4)
    (weights,) = on(gpu, w)
    held = []
    for step in range(8):
        (there,) = on(gpu, np.full(4, float(step)))
        held += region(there, weights)
        assert region.launches == (1 if step else 4)
    assert gpu.graphs.captures == 2
    for step, value in enumerate(held):
        np.testing.assert_array_equal(at_host(gpu, value), expected(np.full(4, float(step)), w))


def test_a_view_of_a_result_counts_as_the_result(gpu):
    region = Region(gpu, chained)
    inputs = on(gpu, np.arange(4.0), np.ones(4))
    for _ in range(2):
        (found,) = region(*inputs)
    with gpu:
        part = found[1:]
    del found
    (there,) = on(gpu, np.full(4, 9.0))
    region(there, inputs[1])
    np.testing.assert_array_equal(at_host(gpu, part), expected(np.arange(4.0), 1)[1:])


def test_a_result_that_is_the_next_input_is_read_before_it_is_overwritten(gpu):
    region = Region(gpu, chained)
    w = np.full(3, -0.25)
    (value, weights), wanted = on(gpu, np.full(3, 0.5), w), np.full(3, 0.5)
    for _ in range(6):
        (value,) = region(value, weights)
        wanted = expected(wanted, w)
        np.testing.assert_array_equal(at_host(gpu, value), wanted)


def test_two_results_in_one_memory_are_both_right(gpu):
    def kernels(x, w):
        y = (x + w) * 2
        return [y, y.reshape(2, 2)]

    region = Region(gpu, kernels)
    for step in range(5):
        flat, square = region(*on(gpu, np.full(4, float(step)), np.ones(4)))
        np.testing.assert_array_equal(at_host(gpu, square), np.full((2, 2), (step + 1) * 2.0))
        np.testing.assert_array_equal(at_host(gpu, flat), np.full(4, (step + 1) * 2.0))


# Shapes


def test_each_shape_has_a_graph_and_the_least_recently_used_goes_first(gpu, monkeypatch):
    monkeypatch.setattr(cuda_graph, "MOST", 2)
    region = Region(gpu, chained)

    def runs(size):
        x = np.arange(float(size))
        (found,) = region(*on(gpu, x, np.ones(size)))
        np.testing.assert_array_equal(at_host(gpu, found), expected(x, 1))
        return region.launches

    assert [runs(2), runs(3), runs(2), runs(3)] == [4, 4, 1, 1]
    held = gpu.driver.used
    assert [runs(2), runs(4)] == [1, 4]  # 3 goes
    gpu.sweep()
    assert gpu.driver.used < held
    assert [runs(2), runs(3), runs(4)] == [1, 4, 4]


def test_a_value_of_the_host_chooses_the_graph_and_is_returned_as_a_copy(gpu):
    region = Region(gpu, lambda x, size: [x.reshape(size.tolist()) * 2 + 1, np.array(size)])
    x = np.arange(6.0)
    (there,) = on(gpu, x)
    for wanted in ([2, 3], [3, 2]) * 3:
        size = np.array(wanted)
        found, same = region(there, size)
        np.testing.assert_array_equal(at_host(gpu, found), x.reshape(wanted) * 2 + 1)
        np.testing.assert_array_equal(same, wanted)
        same[:] = size[:] = 0
        del found
    assert gpu.graphs.captures == 2
    assert region.launches == 1
    assert region._launcher.launch(None, [there, np.zeros(cuda_graph.LARGEST)]) is None


def test_a_dtype_or_an_order_in_memory_is_a_shape_of_its_own(gpu):
    region = Region(gpu, chained)
    for dtype in (np.float32, np.float64):
        for order in "CF":
            value = np.asarray(np.arange(6.0).reshape(2, 3), dtype)
            for step in range(3):
                there = gpu.copy_in(value)
                with gpu:
                    there = gpu.xp.array(there, order=order)
                (found,) = region(there, there)
                assert region.launches == (1 if step else 4)
                np.testing.assert_array_equal(at_host(gpu, found), expected(value, value))


# A driver that breaks a rule of memory: the fake GPU notices, so the tests above would have failed


class WithoutPool(FakeGpu):
    """Memory inside of a graph is anyone's after the capture."""

    def new_graph_pool(self):
        return Pool(self)


class WithoutAddresses(FakeGpu):
    """All arrays seem to be at one address."""

    def address(self, array):
        return 0


class WithoutLoans(FakeGpu):
    """Results seem to be free at once."""

    def lend(self, array, on_free):
        made = super().lend(array, lambda: None)
        on_free()
        return made


def test_a_graph_without_memory_of_its_own_is_noticed():
    gpu = opened(WithoutPool(Machine()))
    region = Region(gpu, chained)
    inputs = on(gpu, np.arange(4.0), np.ones(4))
    region(*inputs)
    with pytest.raises(Race, match="does not belong to the graph"):
        region(*inputs)
    gpu.close()


def test_a_graph_that_reads_memory_of_other_arrays_is_noticed():
    gpu = opened(WithoutAddresses(Machine()))
    region = Region(gpu, chained)
    first, second = on(gpu, np.arange(4.0), np.ones(4)), on(gpu, np.full(4, 8.0), np.ones(4))
    for _ in range(2):
        region(*first)
    (found,) = region(*second)
    assert not np.array_equal(at_host(gpu, found), expected(np.full(4, 8.0), 1))
    del first, found
    with pytest.raises(Race, match="was freed after the capture"):
        region(*second)
    gpu.close()


def test_a_graph_that_overwrites_held_results_is_noticed():
    gpu = opened(WithoutLoans(Machine()))
    region = Region(gpu, chained)
    held = []
    for step in range(3):
        held += region(*on(gpu, np.full(4, float(step)), np.ones(4)))
    assert np.array_equal(at_host(gpu, held[1]), at_host(gpu, held[2]))
    gpu.close()


# Failures


def looks(x, w):
    return chained(x, w) if float(x.sum()) < 100 else [x]


def copies(x, w):
    return [x * x.device.xp.asarray([1.0, 2.0, 3.0, 4.0]) + w]


@pytest.mark.parametrize(("kernels", "reason"), [(looks, "waits for the GPU"), (copies, "neither copies")])
def test_kernels_that_no_graph_can_contain_are_launched_one_by_one_for_good(gpu, caplog, kernels, reason):
    region = Region(gpu, kernels)
    with caplog.at_level(logging.WARNING, "aioflow.devices"):
        for step in range(4):
            x = np.full(4, float(step))
            inputs = on(gpu, x, np.ones(4))
            (found,) = region(*inputs)
            with gpu:
                (alone,) = kernels(*inputs)
            np.testing.assert_array_equal(at_host(gpu, found), at_host(gpu, alone))
            assert region.launches > 1
    assert gpu.graphs.captures == gpu.graphs.launches == 0
    (failure,) = gpu.graphs.failures
    assert failure.startswith(f"the kernels on {NAME}: ")
    assert reason in failure
    assert [record.getMessage() for record in caplog.records] == [
        f"not captured in a CUDA graph, and launched one by one for inputs of this shape: {failure}"
    ]


@pytest.mark.parametrize("error", [GpuFailure("operation not permitted"), OutOfMemory("none left")])
def test_a_capture_that_fails_disturbs_no_run(gpu, error):
    region = Region(gpu, chained)
    inputs = on(gpu, np.arange(4.0), np.ones(4))
    region(*inputs)
    gpu.driver.fail_next = error
    for _ in range(3):
        (found,) = region(*inputs)
        np.testing.assert_array_equal(at_host(gpu, found), expected(np.arange(4.0), 1))
        assert region.launches == 4
    assert len(gpu.graphs.failures) == 1


def test_a_capture_that_fails_for_one_shape_leaves_the_graphs_of_the_others(gpu):
    region = Region(gpu, chained)
    short, long = on(gpu, np.arange(4.0), np.ones(4)), on(gpu, np.arange(8.0), np.ones(8))
    for inputs in (short, short, long):
        region(*inputs)
    gpu.driver.fail_next = OutOfMemory("none left")
    for _ in range(2):
        for inputs, launches in ((long, 4), (short, 1)):
            (found,) = region(*inputs)
            np.testing.assert_array_equal(at_host(gpu, found), expected(at_host(gpu, inputs[0]), 1))
            assert region.launches == launches
            del found
    assert len(gpu.graphs.failures) == 1


def test_an_interrupt_during_a_capture_ends_the_capture(gpu):
    interrupts = [True]

    def kernels(x, w):
        results = chained(x, w)
        if len(interrupts) > 1 and interrupts.pop():
            raise KeyboardInterrupt
        interrupts.append(True)
        return results

    region = Region(gpu, kernels)
    inputs = on(gpu, np.arange(4.0), np.ones(4))
    region(*inputs)
    with pytest.raises(KeyboardInterrupt):
        region(*inputs)
    (found,) = region(*inputs)
    np.testing.assert_array_equal(at_host(gpu, found), expected(np.arange(4.0), 1))


async def test_a_launch_that_fails_on_the_gpu_fails_who_waits_for_it():
    gpu = opened(FakeGpu(Machine()))
    region = Region(gpu, chained)
    inputs = on(gpu, np.arange(4.0), np.ones(4))
    for _ in range(2):
        region(*inputs)
    gpu.driver.fail_next = GpuFailure("an illegal address")
    region(*inputs)
    with pytest.raises(errors.UnavailableError, match="GPU:0: the GPU failed: an illegal address"):
        await gpu.settled()
    gpu.close()


def test_a_launch_that_finds_no_memory_names_the_device_and_the_next_one_works(gpu):
    region = Region(gpu, chained)
    inputs = on(gpu, np.arange(4.0), np.ones(4))
    for _ in range(2):
        region(*inputs)
    gpu.driver.fail_next = OutOfMemory("none left")
    with pytest.raises(errors.ResourceExhaustedError, match="GPU:0: none left"):
        region(*inputs)
    (found,) = region(*inputs)
    np.testing.assert_array_equal(at_host(gpu, found), expected(np.arange(4.0), 1))


def test_where_memory_does_not_suffice_for_a_graph_kernels_are_launched_one_by_one(gpu):
    region = Region(gpu, chained)
    x, other, weights = on(gpu, np.arange(100.0), np.arange(100.0) + 1, np.ones(100))
    gpu.driver.limit = 5 * 800  # with two values at a time
    region(x, weights)
    for _ in range(3):
        (found,) = region(other, weights)  # it moves, so a graph would need a copy of it
        assert region.launches == 4
        np.testing.assert_array_equal(at_host(gpu, found), expected(np.arange(100.0) + 1, 1))
        del found
    assert "800 bytes do not fit" in gpu.graphs.failures[0]


# Ends


def test_a_graph_lives_until_its_last_launch_has_run(gpu):
    region = Region(gpu, chained)
    inputs = on(gpu, np.arange(4.0), np.ones(4))
    graphs = []
    made = gpu.driver.capture

    def noted(work, stream):
        graph, results = made(work, stream)
        graphs.append(weakref.ref(graph))
        return graph, results

    gpu.driver.capture = noted
    gpu.driver.machine.run()
    gpu.driver.machine.held = True
    for _ in range(2):
        held = region(*inputs)
    region(*inputs)  # the held result makes a second graph
    del held
    gc.collect()
    assert [ref() is None for ref in graphs] == [False, False]
    gpu.driver.machine.held = False
    gpu.driver.machine.run()
    gpu.sweep()
    assert [ref() is None for ref in graphs] == [True, False]
    del gpu.driver.capture


def test_memory_that_is_freed_during_a_capture_is_no_part_of_the_graph(gpu):
    waste = on(gpu, np.zeros(3))

    def kernels(x, w):
        waste.clear()  # it came by a copy, so its memory returns after an event on the stream of the kernels
        return chained(x, w)

    region = Region(gpu, kernels)
    inputs = on(gpu, np.arange(4.0), np.ones(4))
    for _ in range(3):
        waste += on(gpu, np.zeros(3))
        (found,) = region(*inputs)
        np.testing.assert_array_equal(at_host(gpu, found), expected(np.arange(4.0), 1))
    assert gpu.graphs.failures == []
