"""What a device's memory holds, and who made it."""

import asyncio
import gc
import threading
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import aioflow as af
from aioflow import errors
from aioflow.devices.memory import Holder, Ledger, account_results
from aioflow.net.transport.segments import SegmentPool
from aioflow.resources.buffers import BUFFERS
from aioflow.tensors.tensor_list import TensorList

KIB = 1024


def kib(count=1):
    return np.zeros(count * KIB, np.uint8)


@pytest.fixture
def ledger():
    return Ledger("/device:CPU:0")


def holders(ledger):
    return [(holder.op, holder.bytes) for holder in ledger.by_op()]


# What counts


@pytest.mark.parametrize("take", [BUFFERS.take, SegmentPool(1 << 24).take])
def test_memory_that_a_pool_keeps_for_later_use_does_not_count(take):
    ledger = Ledger("/device:CPU:0", 3 << 19)
    for op in ("a", "b"):
        value = ledger.hold(take(1 << 20).view(np.float32).reshape(512, 512), op)
        part = value[3]
        assert holders(ledger) == [(op, 1 << 20)]
        del value
        assert ledger.live == 1 << 20
        del part
        assert ledger.live == 0


def test_an_array_counts_until_it_dies(ledger):
    value = ledger.hold(kib(3), "a")
    assert (ledger.live, ledger.peak, holders(ledger)) == (3 * KIB, 3 * KIB, [("a", 3 * KIB)])
    del value
    assert (ledger.live, ledger.peak, holders(ledger)) == (0, 3 * KIB, [])


def test_it_gives_back_what_it_is_given(ledger):
    for value in (kib(), np.float32(1), TensorList(), b"text", None):
        assert ledger.hold(value, "a") is value


def test_memory_is_charged_once_to_who_made_it_and_as_long_as_a_view_lives(ledger):
    whole = ledger.hold(kib(4), "made")
    views = [ledger.hold(view, "seen") for view in (whole, whole[:1], whole.reshape(2, -1)[1:, ::2])]
    del whole
    assert holders(ledger) == [("made", 4 * KIB)]
    views.clear()
    assert ledger.live == 0


def test_a_view_keeps_all_of_its_memory_alive(ledger):
    part = ledger.hold(kib(8)[:1], "slice")
    assert ledger.live == 8 * KIB
    part = ledger.hold(np.broadcast_to(np.ones(1), (1000,)), "broadcast")
    assert ledger.live == part.base.nbytes


def test_memory_that_is_no_arrays_counts_by_the_array_over_it(ledger):
    value = ledger.hold(np.frombuffer(bytes(5 * KIB), np.uint8)[KIB:], "read")
    assert ledger.live == 5 * KIB
    del value
    assert ledger.live == 0


@pytest.mark.parametrize("value", [np.float64(1), 3, None, b"text", np.zeros((0, 7)), object()])
def test_scalars_and_what_is_no_array_count_nothing(ledger, value):
    ledger.hold(value, "a")
    assert ledger.live == 0


def test_strings_count_with_their_characters(ledger):
    value = ledger.hold(np.array([[b"four", b""], [b"sixsix", b"x"]], object), "text")
    assert ledger.live == value.nbytes + 11


def test_arrays_of_another_device_are_not_its_own():
    class Elsewhere(np.ndarray):
        pass

    ledger = Ledger("/device:GPU:0", arrays=Elsewhere)
    here, there = kib(), kib(2).view(Elsewhere)
    ledger.hold(here, "shape")
    ledger.hold(there, "compute")
    assert holders(ledger) == [("compute", 2 * KIB)]


def test_lists_count_what_they_hold_and_nothing_twice(ledger):
    tensors = ledger.hold(TensorList.of([kib(), kib(2)]), "of")
    tensors = ledger.hold(tensors.append(ledger.hold(kib(4), "made")), "append")
    nested = ledger.hold(TensorList.of([tensors, TensorList.of([kib(8)])]), "nested")
    assert holders(ledger) == [("nested", 8 * KIB), ("made", 4 * KIB), ("of", 3 * KIB)]
    del tensors, nested
    assert ledger.live == 0


def test_of_a_long_list_the_newest_counts(ledger):
    tensors = TensorList()
    for _ in range(100):
        tensors = ledger.hold(tensors.append(kib()), "append")
    assert ledger.live == 100 * KIB


def test_the_largest_come_first_and_the_same_op_is_summed(ledger):
    values = [ledger.hold(kib(size), op, f"{op}.py:1 in f") for op, size in [("a", 1), ("b", 5), ("a", 2)]]
    assert ledger.by_op() == [Holder("b", 5 * KIB, "b.py:1 in f"), Holder("a", 3 * KIB, "a.py:1 in f")]
    del values


def test_the_peak_can_be_measured_anew(ledger):
    values = [ledger.hold(kib(), "a") for _ in range(5)]
    del values[2:]
    ledger.reset_peak()
    assert (ledger.live, ledger.peak) == (2 * KIB, 2 * KIB)
    values.append(ledger.hold(kib(), "a"))
    assert ledger.peak == 3 * KIB


def test_what_is_shared_by_two_devices_counts_on_both(ledger):
    other = Ledger("/device:CPU:1")
    value = other.hold(ledger.hold(kib(), "a"), "recv")
    assert ledger.live == other.live == KIB
    del value
    assert ledger.live == other.live == 0


def test_its_repr_says_what_there_is():
    ledger = Ledger("/device:CPU:3", 4 * KIB)
    value = ledger.hold(kib(), "a")
    assert repr(ledger) == "<Ledger of /device:CPU:3: 1,024 bytes of 4,096, at most 1,024>"
    del value


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 9)), max_size=40))
def test_whatever_comes_and_goes_the_sum_is_right(steps):
    """Memory of dead arrays is used again at once, under the same address."""
    ledger, values = Ledger("cpu"), {}
    for place, size in steps:
        values.pop(place, None)
        values[place] = ledger.hold(kib(size), f"op{place}")
        assert ledger.live == sum(value.nbytes for value in values.values())
        assert ledger.live <= ledger.peak
    assert sorted(holders(ledger)) == [(f"op{p}", v.nbytes) for p, v in sorted(values.items()) if v.nbytes]


def test_what_dies_in_a_cycle_is_seen_when_the_collector_comes(ledger):
    class Box:
        pass

    box = Box()
    box.me, box.value = box, ledger.hold(kib(), "a")
    del box
    gc.collect()
    assert ledger.live == 0


@pytest.mark.real
def test_arrays_may_be_made_and_die_on_any_thread(ledger):
    shared = [None] * 4
    barrier = threading.Barrier(4)

    def work(number):
        barrier.wait()
        for turn in range(300):
            shared[(number + turn) % 4] = ledger.hold(kib(1 + turn % 3), f"op{number}")

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ledger.live == sum(value.nbytes for value in shared)
    shared.clear()
    assert (ledger.live, ledger.by_op()) == (0, [])


# Its limit


def test_what_passes_the_limit_is_refused_and_the_largest_holders_named():
    ledger = Ledger("/device:CPU:1", limit=10 * KIB)
    sizes = {"small": 1, "large": 4, "middle": 2, "least": 0.5}
    values = [ledger.hold(kib(4)[: int(size * KIB)].copy(), op, f"m.py:{size} in f") for op, size in sizes.items()]
    with pytest.raises(errors.ResourceExhaustedError) as caught:
        ledger.hold(kib(3), "new")
    assert caught.value.message == (
        "'new' needs 3,072 bytes on /device:CPU:1, which may hold 10,240 and holds 7,680; the largest are "
        "'large' (4,096 bytes, built at m.py:4 in f), 'middle' (2,048 bytes, built at m.py:2 in f), "
        "'small' (1,024 bytes, built at m.py:1 in f)"
    )
    assert "new" not in dict(holders(ledger))
    values.clear()
    assert ledger.live == 0


def test_so_much_as_the_limit_is_allowed_and_what_is_held_costs_nothing_more():
    ledger = Ledger("cpu", limit=2 * KIB)
    value = ledger.hold(kib(2), "a")
    assert ledger.hold(value[1:], "b").base is value
    with pytest.raises(errors.ResourceExhaustedError, match=r"'b' needs 1,024 bytes on cpu, which may hold 2,048"):
        ledger.hold(kib(), "b")
    del value
    ledger.hold(kib(2), "b")


def test_room_can_be_asked_for_before_anything_is_allocated():
    ledger = Ledger("cpu", limit=2 * KIB)
    ledger.check(2 * KIB, "the plan")
    with pytest.raises(
        errors.ResourceExhaustedError, match=r"^the plan needs 2,049 bytes on cpu, which may hold 2,048 and holds 0$"
    ):
        ledger.check(2 * KIB + 1, "the plan")
    assert ledger.live == 0
    Ledger("cpu").check(10**18, "the plan")


# Kernels


def node(name, count=1):
    with af.Graph().as_default():
        operation = af.no_op(name=name)
    return SimpleNamespace(name=name, operation=operation, output_specs=[None] * count)


def test_the_results_of_a_kernel_are_charged_to_its_node_with_the_users_line(ledger):
    made = account_results(np.add, ledger, node("sum"))(kib(), kib())
    (holder,) = ledger.by_op()
    assert (holder.op, holder.bytes) == ("sum", KIB)
    assert "test_memory.py" in holder.line
    del made
    assert ledger.live == 0


def test_a_kernel_that_writes_into_an_array_makes_nothing(ledger):
    a = ledger.hold(kib(), "a")
    assert account_results(np.add, ledger, node("sum"))(a, a, out=a) is a
    assert holders(ledger) == [("a", KIB)]


def test_each_of_several_results_is_charged(ledger):
    parts = account_results(lambda x: (x.copy(), x.copy()), ledger, node("split", 2))(kib())
    assert holders(ledger) == [("split", 2 * KIB)]
    del parts
    assert ledger.live == 0


@pytest.mark.parametrize("result", [None, ()])
def test_a_kernel_without_results_is_charged_nothing(ledger, result):
    assert account_results(lambda: result, ledger, node("print", 0))() is result
    assert ledger.live == 0


async def test_what_a_kernel_waited_for_is_charged(ledger):
    async def kernel(x):
        await asyncio.sleep(1)
        return x.copy()

    value = await account_results(kernel, ledger, node("wait"), asynchronous=True)(kib())
    assert holders(ledger) == [("wait", KIB)]
    del value


def test_a_kernel_past_the_limit_fails_and_leaves_nothing():
    ledger = Ledger("cpu", limit=KIB)
    with pytest.raises(errors.ResourceExhaustedError, match="'copy' needs 2,048 bytes"):
        account_results(np.copy, ledger, node("copy"))(kib(2))
    assert (ledger.live, ledger.peak) == (0, 0)
