"""What state machines of waiting objects have in common: those who wait, cancelled at any moment, beside a model."""

import asyncio
import types

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from aioflow import errors
from aioflow.testing import VirtualTimeLoop

GRANTED = "granted"
PLACES = st.lists(st.integers(0, 3), max_size=2)
"""Whom to cancel."""


def result_of(task):
    """What a task that is done came to, an error as its class."""
    if task.cancelled():
        return asyncio.CancelledError
    error = task.exception()
    return task.result() if error is None else type(error)


class WaitingMachine(RuleBasedStateMachine):
    """Those who wait, in the order they came, and those who were served and have not heard of it.

    What is cancelled leaves when the loop turns, and gives back what it was served meanwhile. A subclass says in
    `served(entry)` what an entry comes to now, None if it must wait, changing the model; in `given_back(entry)` what
    becomes of what a cancelled one had; in KINDS which kinds of entries are served, in that order. Entries of one kind
    wait in order, those of different keys independently. The outcome of a waiting entry may be GRANTED, with nothing
    changed yet; `finished(entry)` then gives the outcome when its caller resumes.
    """

    KINDS = (None,)

    def __init__(self):
        super().__init__()
        self.loop = VirtualTimeLoop()
        self.live = self.make()
        self.line = []
        self.unheard = []
        self.leaving = []
        self.granted = []
        self.moments = []
        """The callers that resume in the next turn, served, granted or cancelled, in that order."""

    def make(self):
        """A new model object. A subclass defines it."""
        raise NotImplementedError

    def served(self, entry):
        """The outcome of an entry now; None if it must wait. A subclass defines it."""
        raise NotImplementedError

    def given_back(self, entry):
        pass

    def finished(self, entry):
        """The outcome of a granted entry when its caller resumes. A subclass that grants defines it."""
        raise NotImplementedError

    def settle(self):
        """Serve the model's lines, kind by kind in the order of KINDS, until nothing changes."""
        before = -1
        while len(self.unheard) + len(self.granted) > before:
            before = len(self.unheard) + len(self.granted)
            for kind in self.KINDS:
                self.settle_kind(kind)

    def settle_kind(self, kind):
        blocked = set()
        for entry in [entry for entry in self.line if entry.kind == kind]:
            outcome = None if entry.key in blocked else self.served(entry)
            if outcome is None:
                blocked.add(entry.key)
            elif outcome is GRANTED:
                self.line.remove(entry)
                self.granted.append(entry)
                self.resumes(entry)
            else:
                entry.outcome = outcome
                self.line.remove(entry)
                self.unheard.append(entry)
                self.resumes(entry)

    def resumes(self, entry):
        """Its caller resumes in the next turn, unless it does already, or has never waited."""
        if entry.waits and entry not in self.moments:
            self.moments.append(entry)

    def join(self, coroutine, cancel=(), **what):
        """One more who waits, or is served at once; then some are cancelled before they hear of what that did."""
        self.join_all([(coroutine, what)], cancel)

    def join_all(self, many, cancel=()):
        """The same of several who come in the same turn of the loop."""
        self.turn()
        entries = []
        for _, what in many:
            entries.append(
                types.SimpleNamespace(**{"outcome": None, "kind": None, "key": None, "waits": False, **what})
            )
            self.line.append(entries[-1])
            self.settle()
            entries[-1].waits = True

        async def begin():
            for entry, (coroutine, _) in zip(entries, many, strict=True):
                entry.task = asyncio.create_task(coroutine)
            await asyncio.sleep(0)
            self.cancel_now(cancel)

        self.loop.run_until_complete(begin())
        self.turn()

    def cancel_now(self, places):
        """Cancel some of those who were served and have not heard of it, or still wait."""
        for place in places:
            alive = [entry for entry in self.unheard + self.granted + self.line if not entry.task.done()]
            entries = [entry for entry in alive if entry not in self.leaving]
            if entries:
                entry = entries[place % len(entries)]
                entry.task.cancel()
                self.leaving.append(entry)
                self.resumes(entry)

    def on_loop(self, change):
        """Make a change as code on the loop would, without a turn. From other threads, callers resume in any order."""
        asyncio._set_running_loop(self.loop)
        try:
            change()
        finally:
            asyncio._set_running_loop(None)

    def turn(self):
        for entry in self.moments:  # more are granted meanwhile
            if entry not in self.leaving and entry in self.unheard:
                continue
            if entry not in self.leaving:
                self.granted.remove(entry)
                entry.outcome = self.finished(entry)
                self.unheard.append(entry)
            elif entry in self.line:
                self.line.remove(entry)
            elif entry in self.granted:
                self.granted.remove(entry)
            else:
                self.unheard.remove(entry)
                if not isinstance(entry.outcome, type):
                    self.given_back(entry)
            self.settle()

        async def turns():
            for _ in range(40):
                await asyncio.sleep(0)

        self.loop.run_until_complete(turns())
        for entry in self.leaving:
            assert result_of(entry.task) is asyncio.CancelledError
        for entry in self.unheard:
            found, expected = result_of(entry.task), entry.outcome
            assert found is expected if isinstance(expected, type) else self.same(entry, found), (found, expected)
        assert not any(entry.task.done() for entry in self.line)
        assert len(self.live.waiting) == len(self.line)
        self.leaving, self.unheard, self.moments = [], [], []

    def same(self, entry, found):
        """Whether that is what the entry came to."""
        return found == entry.outcome

    @precondition(lambda self: self.line or self.unheard)
    @rule(places=PLACES)
    def cancel(self, places):
        """Before the loop turns: they may have been served already."""
        self.cancel_now(places)

    @rule()
    def let_the_loop_turn(self):
        self.turn()

    def teardown(self):
        self.turn()
        self.live.release()
        for entry in self.line:
            entry.outcome = errors.CancelledError
        self.unheard, self.line = self.line, []
        self.turn()
        self.loop.close()
