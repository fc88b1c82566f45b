"""The values of many variables at one moment."""

import threading

import numpy as np
import pytest

import aioflow as af
from aioflow.kernels.nn.update import exclusively
from aioflow.kernels.state.run_state import cut_variable, mark_variable
from aioflow.resources.containers import VariableState, read_together
from aioflow.tensors.dtypes import Spec, TensorShape, float64
from aioflow.testing import Gate, faulty_kernel


def state(name, count=1000):
    made = VariableState(name, Spec(float64, TensorShape([count])))
    made.assign(np.zeros(count))
    return made


def grow(states):
    for each in states:
        array = each.writable()
        array += 1


@pytest.mark.real
def test_variables_that_change_together_are_read_together():
    states, stop = [state("one"), state("other"), state("third")], threading.Event()

    def change():
        while not stop.is_set():
            exclusively(states[::-1], None, grow)

    threads = [threading.Thread(target=change) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(200):
            values = read_together(states)
            kept = {each: value.copy() for each, value in values.items()}
            assert len({value[0] for value in values.values()}) == 1
            assert all(value.min() == value.max() for value in values.values())
            assert all(np.array_equal(values[each], kept[each]) for each in states)
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def test_what_was_read_together_with_one_that_has_no_value_can_be_changed_again():
    full, empty = state("full"), VariableState("empty", Spec(float64, TensorShape([1])))
    with pytest.raises(af.errors.FailedPreconditionError, match="'empty' is not initialized"):
        read_together([full, empty])
    assert full.begin_change(wait=False)
    assert empty.begin_change(wait=False)


@pytest.mark.parametrize("executor", ["regions", "tokens"])
async def test_all_that_a_step_has_marked_is_taken_when_the_first_is(executor):
    with af.Graph().as_default() as graph:
        one, other = af.Variable(1.0), af.Variable(1.0)
        queue = af.FIFOQueue(1, af.float32, shapes=[[]])
        marks = [mark_variable(variable.handle) for variable in (one, other)]
        with af.control_dependencies(marks):
            first = cut_variable(one.handle)
        with af.control_dependencies([first, queue.dequeue()]):
            second = cut_variable(other.handle)
        with af.control_dependencies([second]):
            alone = cut_variable(one.handle)
        put, grown = queue.enqueue(0.0), [one.assign_add(1.0), other.assign_add(1.0)]
        init = af.global_variables_initializer()
    gate = Gate()
    with faulty_kernel("queue_dequeue", gate=gate):
        async with af.Session(graph=graph, config=af.Config(executor=executor)) as session:
            await session.run(init)
            handle = await session.partial_run_setup([first, second, alone])
            assert await session.partial_run(handle, first) == 1.0
            await gate.arrived()
            await session.run(grown)
            gate.open()
            await session.run(put)
            assert await session.partial_run(handle, [second, alone]) == [1.0, 1.0]
            assert await session.run([one, other]) == [2.0, 2.0]


async def test_a_variable_that_was_not_marked_is_taken_with_the_others():
    with af.Graph().as_default() as graph:
        variable = af.Variable([1.0, 2.0])
        taken = cut_variable(variable.handle)
    async with af.Session(graph=graph) as session:
        await session.run(variable.initializer)
        for _ in range(2):
            assert (await session.run(taken)).tolist() == [1.0, 2.0]
            await variable.load([1.0, 2.0], session)


async def test_variables_of_several_devices_are_taken_at_one_moment():
    with af.Graph().as_default() as graph:
        variables = []
        for number in range(3):
            with af.device(f"/cpu:{number}"):
                variables.append(af.Variable(float(number)))
        anywhere = af.Variable(9.0)
        marks = [mark_variable(variable.handle) for variable in [*variables, anywhere]]
        with af.control_dependencies(marks):
            taken = [cut_variable(variable.handle) for variable in [*variables, anywhere]]
        init = af.global_variables_initializer()
    async with af.Session(graph=graph, config=af.Config(device_count={"CPU": 3})) as session:
        await session.run(init)
        assert await session.run(taken) == [0.0, 1.0, 2.0, 9.0]
