"""Journals of the changes that attempts of runs make on one task."""

import asyncio
import threading

import numpy as np
import pytest

import aioflow as af
from aioflow import errors
from aioflow.graph.effects import changes_variables, has_lasting_effect
from aioflow.graph.op import REGISTRY
from aioflow.kernels.state.lookup_tables import MutableSpec
from aioflow.resources.containers import VariableState
from aioflow.resources.journal import Journal, Journals, Ticket
from aioflow.runtime.attempts import Attempts, current_attempt
from aioflow.tensors.dtypes import ResourceSpec, Spec


def variable(value=0.0, name="v"):
    made = VariableState(name, Spec(af.float64, af.TensorShape([2])))
    made.assign(np.full(2, value))
    return made


def grow(value):
    value += 1.0


def test_taking_back_an_attempt_restores_the_values_from_before():
    first, second, empty = variable(1.0), variable(2.0, "w"), VariableState("e", Spec(af.float64, af.TensorShape([2])))
    journal, read = Journal(), first.read()
    first.change(grow, journal)
    first.change(grow, journal)
    second.assign(np.zeros(2), journal)
    empty.assign(np.ones(2), journal)
    assert first.read()[0] == 3.0
    journal.close()
    assert journal.take_back() == ()
    assert first.read() is read
    assert second.read()[0] == 2.0
    assert not empty.initialized
    assert journal.take_back() == (), "a second time nothing is left to do"


def test_a_change_by_another_run_stays_and_is_named():
    state, journal = variable(), Journal()
    state.change(grow, journal)
    state.change(grow)
    journal.close()
    assert journal.take_back() == ("v",)
    assert state.read()[0] == 2.0
    earlier, later = Journal(), Journal()
    state.change(grow, earlier)
    state.change(grow, later)
    for each in (earlier, later):
        each.close()
    assert later.take_back() == ()
    assert earlier.take_back() == ("v",)
    assert state.read()[0] == 3.0


def test_an_undone_attempt_changes_nothing_more():
    state, journal = variable(), Journal()
    journal.close()
    with pytest.raises(errors.AbortedError, match="is cancelled"):
        state.change(grow, journal)
    with pytest.raises(errors.AbortedError, match="is cancelled"):
        state.assign(np.ones(2), journal)
    assert state.read()[0] == 0.0


def test_an_attempt_that_is_over_holds_no_value():
    state, journals = variable(), Journals()
    for number in range(1, 5):
        state.change(grow, journals.of(Ticket(7, number, number)))
        assert len(journals) == 1
    assert journals.known(Ticket(7, 5, 5)) is not None
    before = id(state.change(grow))
    assert id(state.change(grow)) == before, "a change is made in place again"
    with pytest.raises(errors.AbortedError, match="attempt 3 of a run is over"):
        journals.of(Ticket(7, 3, 1))
    assert journals.known(Ticket(7, 3, 1)) is None


def test_journals_are_bounded_and_a_forgotten_attempt_is_reported():
    journals = Journals()
    for owner in range(1500):
        journals.of(Ticket(owner, 1, 1))
    assert len(journals) == 1000
    assert journals.known(Ticket(0, 1, 1)) is None
    assert journals.known(Ticket(1499, 1, 1)) is not None
    for number in range(1, 1500):
        journals.of(Ticket(1499, number, 1))
    assert len(journals) == 999 + 1000
    assert journals.known(Ticket(1499, 1, 1)) is None


@pytest.mark.real
def test_changes_that_race_with_the_end_of_their_attempt_are_undone_or_refused():
    for _ in range(50):
        states, journal, start = [variable(0.0, f"v{index}") for index in range(20)], Journal(), threading.Barrier(3)

        def work(states=states, journal=journal, start=start):
            start.wait()
            for state in states:
                try:
                    state.change(grow, journal)
                except errors.AbortedError:
                    return

        threads = [threading.Thread(target=work) for _ in range(2)]
        for thread in threads:
            thread.start()
        start.wait()
        journal.close()
        assert journal.take_back() == ()
        for thread in threads:
            thread.join()
        assert all(state.read()[0] == 0.0 for state in states)


async def test_steps_of_an_attempt_are_waited_for():
    journal = Journal()
    await journal.idle()
    journal.begin(1)
    journal.begin(2)
    waiting = asyncio.create_task(journal.idle())
    journal.end(1)
    await asyncio.sleep(1)
    assert not waiting.done()
    journal.end(2)
    await waiting


async def test_an_attempt_is_current_only_inside_its_block_and_settled_counts_ended_ones():
    attempts = Attempts()
    assert current_attempt() is None
    with attempts.one() as first:
        assert current_attempt() is first
        beside = asyncio.create_task(asyncio.sleep(1, None))
    assert current_attempt() is None
    with attempts.one() as second:
        assert second.ticket == Ticket(attempts.owner, 2, 1)
        attempts.settle(first)
        assert second.ticket.settled == 2
    attempts.settle(second)
    assert attempts.settled == 3
    await beside


def test_every_stateful_operation_can_be_undone_or_is_listed_as_lasting():
    """The registry's operations on variables, and those with effects that cannot be undone."""
    variables = {"adopt_variable", "count_up_to_variable"}
    for name, definition in REGISTRY.items():
        is_update = name.startswith(("assign_", "scatter_", "apply_", "sparse_apply_")) or name in variables
        if is_update and definition.stateful:
            assert changes_variables(definition), name
            assert not has_lasting_effect(definition, [ResourceSpec((Spec(af.float32, af.TensorShape([])),))]), name
    table = MutableSpec((Spec(af.string, af.TensorShape([])), Spec(af.float32, af.TensorShape([]))))
    for name in ("initialize_table", "initialize_table_from_text_file", "lookup_table_insert", "lookup_table_remove"):
        assert changes_variables(REGISTRY[name]), name
        assert not has_lasting_effect(REGISTRY[name], [table]), name
    assert has_lasting_effect(REGISTRY["lookup_table_import"], [table])
    outside = {name for name, definition in REGISTRY.items() if has_lasting_effect(definition, ())}
    assert outside == {"delete_session_tensor", "py_func", "write_file"}
