"""Containers: named state that outlives a step.

A container maps (kind, name) to a live object: a variable, a queue. Each session has a default container of its own; a
named container is shared by all sessions of the process until it is reset [P15 section 4.7].
"""

import re
import sys
import threading
from collections.abc import Callable, Iterable
from typing import Any, Final, Protocol, TypeVar, runtime_checkable

import numpy as np

from aioflow import errors
from aioflow.resources import variable_memory
from aioflow.resources.journal import Journal
from aioflow.resources.lendable import LENDABLE, MOVED
from aioflow.resources.reference_counts import COUNTS_ARE_EXACT
from aioflow.tensors.dtypes import Array, Namespace, Spec
from aioflow.tensors.lent_memory import is_plain

_NAME: Final = re.compile(r"[A-Za-z0-9.][A-Za-z0-9_.\-/]*")


class Resource(Protocol):
    """A live object in a container."""

    def release(self) -> None:
        """Release memory and fail all waiters: the container is reset, or its session closed."""


@runtime_checkable
class Ending(Protocol):
    """A live object that has tasks of its own."""

    async def aclose(self) -> None:
        """End them."""


R = TypeVar("R", bound=Resource)


class Container:
    """Live objects by kind and name. Safe to use from any thread."""

    def __init__(self) -> None:
        self._objects: dict[tuple[type, str], Resource] = {}
        self._lock = threading.Lock()

    def lookup_or_create(self, kind: type[R], name: str, make: Callable[[], R]) -> R:
        """Return the object of that kind and name, made now if it is missing."""
        with self._lock:
            found = self._objects.get((kind, name))
            if found is None:
                found = self._objects[kind, name] = make()
            return found  # type: ignore[return-value]

    def lookup(self, kind: type[R], name: str) -> R:
        """Return the object of that kind and name. NotFoundError if it does not exist."""
        found = self._objects.get((kind, name))
        if found is None:
            raise errors.NotFoundError(f"there is no {kind.__name__} named {name!r} in the container")
        return found  # type: ignore[return-value]

    def discard(self, kind: type[R], name: str) -> bool:
        """Release and forget the object of that kind and name. Returns whether there was one."""
        with self._lock:
            found = self._objects.pop((kind, name), None)
        if found is not None:
            found.release()
        return found is not None

    def objects(self) -> dict[tuple[type, str], Any]:
        """Return all objects, by kind and name."""
        with self._lock:
            return dict(self._objects)

    def clear(self) -> None:
        """Release everything and forget it."""
        with self._lock:
            objects, self._objects = list(self._objects.values()), {}
        for resource in objects:
            resource.release()


_shared: Final[dict[str, Container]] = {}
_shared_lock: Final = threading.Lock()


def shared_container(name: str) -> Container:
    """Return the process's container of that name, made if it is missing. ValueError if the name is malformed."""
    made = _new_container(name)
    with _shared_lock:
        return _shared.setdefault(name, made)


def _new_container(name: str) -> Container:
    if _NAME.fullmatch(name) is None:
        raise ValueError(f"{name!r} is not a valid container name: letters, digits and _ . - / only")
    return Container()


def drop_shared(names: Iterable[str] | None) -> list[Container]:
    """Forget these shared containers (all, if None) and return them; their owner clears them."""
    with _shared_lock:
        chosen = list(_shared) if names is None else [name for name in names if name in _shared]
        return [_shared.pop(name) for name in chosen]


class Resources:
    """The containers of a session: its default one, and the process's by name.

    A task of a cluster has its own named containers, since a process may run several tasks: `shared` is False.

    Attributes:
        drops: the number of drops so far. After a drop, cached lookups are invalid.
    """

    def __init__(self, shared: bool = True) -> None:
        self.drops: int = 0
        self._own = Container()
        self._used: dict[str, Container] = {}
        self._shared: Final = shared

    def container(self, name: str) -> Container:
        """The container of that name; the session's own for an empty name."""
        if not name:
            return self._own
        found = self._used.get(name)
        if found is None:
            make = shared_container if self._shared else _new_container
            found = self._used.setdefault(name, make(name))  # another thread may have been faster
        return found

    def drop(self, names: Iterable[str]) -> None:
        """Release the objects in these containers, or in all containers if the list is empty."""
        wanted = set(names)
        for name, container in {"": self._own, **self._used}.items():
            if name in wanted or not wanted:
                container.clear()
        self.drops += 1  # last, so that a lookup on another thread meanwhile is repeated

    def forget(self, name: str) -> None:
        """Release the objects in this container, and forget it."""
        container = self._used.pop(name, None)
        if container is not None:
            container.clear()

    def alive(self) -> list[Any]:
        """All live objects in the containers that the session has reached."""
        return [thing for container in (self._own, *self._used.values()) for thing in container.objects().values()]

    def uses(self, container: Container) -> bool:
        """Whether the session has reached that container."""
        return any(container is used for used in self._used.values())

    async def end_iterations(self) -> None:
        """Wait until tasks, calls and files of the session's own iterations have ended."""
        for thing in self._own.objects().values():
            if isinstance(thing, Ending):
                await thing.aclose()

    def clear(self) -> None:
        """Release the state of the session; shared containers stay."""
        if not self._shared:
            self.drop(())
        self._own.clear()
        self._used.clear()


_ONLY_OURS: Final = 2
"""The reference count of a value that only the variable's attribute holds: that, and the argument of the call."""


class VariableState:
    """The value of a variable, or none yet. Reads and changes are atomic, from any thread.

    A returned value never changes: a change is made in place only if the array has no other holder, else in a copy. A
    read during a change waits for its end, which is the time of one kernel.

    A large value that is sent to another process of this host moves to memory that both can map, and so do later ones.
    """

    __slots__ = ("__weakref__", "_author", "_changing", "_lock", "_spare", "_value", "name", "spec")

    def __init__(self, name: str, spec: Spec) -> None:
        self.name: str = name
        self.spec: Spec = spec
        self._value: Array = None
        self._spare: Array = None
        self._lock = threading.Lock()
        self._changing = False
        self._author: Journal | None = None
        if spec.bytes is None or spec.bytes >= MOVED:  # a smaller one never moves: models have thousands of them
            LENDABLE.register(self)

    @property
    def initialized(self) -> bool:
        """Whether it has a value."""
        return self._value is not None

    def read(self) -> Array:
        """Return the present value. FailedPreconditionError if the variable is not initialized."""
        value = self._value
        if self._changing:  # looked at only after taking hold of the value: see begin_change
            del value
            with self._lock:
                value = self._value
        return self._checked(value)

    def _checked(self, value: Array) -> Array:
        if value is None:
            raise errors.FailedPreconditionError(
                f"variable {self.name!r} is not initialized: run its initializer or af.global_variables_initializer() "
                "first (af.local_variables_initializer() for a local one, like that of epochs), or restore a checkpoint"
            )
        return value

    def assign(self, value: Array, journal: Journal | None = None) -> Array:
        """Replace the value by a copy of `value`, or by itself if nothing can change it.

        InvalidArgumentError for a shape the variable cannot have.
        """
        self._check_shape(value)
        copied = value if variable_memory.can_stay(value) else self._copy(value)
        with self._lock:
            if self._author is not journal:
                self.note(journal)
            self._value = copied
        return copied

    def _copy(self, value: Array) -> Array:
        """A copy of a value, in memory for peers if the present value is there."""
        if isinstance(value, np.generic) or not hasattr(value, "shape"):
            return np.array(value)
        room = LENDABLE.take(value.shape, value.dtype) if LENDABLE.has(self._value) else None
        if room is None:
            return variable_memory.copy(value)
        np.copyto(room, value)
        return room

    def _check_shape(self, value: Array) -> None:
        if not self.spec.shape.is_compatible_with(np.shape(value)):
            raise errors.InvalidArgumentError(
                f"a value of shape {list(np.shape(value))} cannot be assigned to variable {self.name!r} of {self.spec}"
            )

    def begin_change(self, wait: bool = True) -> bool:
        """Take the right to change the value; False if another has it and `wait` is false. Ends with `end_change`."""
        if not self._lock.acquire(wait):
            return False
        # Set before `writable` counts the holders of the value: a reader is counted, or sees this.
        self._changing = True
        return True

    def end_change(self) -> None:
        """Give the right to change the value back."""
        self._changing = False
        self._lock.release()

    def note(self, journal: Journal | None) -> None:
        """Prepare a change by the attempt with this journal, or by no attempt. Called after `begin_change`.

        AbortedError if that attempt was taken back.
        """
        author = self._author
        if author is not journal:
            if journal is not None:
                journal.keep(self, self._value)
            if author is not None:
                author.lose(self)
            self._author = journal

    def take_back(self, journal: Journal, value: Array) -> bool:
        """Restore the value from before the attempt. False if something else has changed the variable since."""
        with self._lock:
            if self._author is not journal:
                return False
            self._author, self._value = None, value
            return True

    def writable(self) -> Array:
        """Return the array to change in place, after `begin_change`: a copy if the present one has other holders.

        FailedPreconditionError if the variable is not initialized.
        """
        self._checked(self._value)
        if self._is_held():
            if isinstance(self._value, np.ndarray) and (self._author is not None or not is_plain(self._value)):
                room = self._room(np)
                np.copyto(room, self._value)
                self.settle(room)
            else:
                self._value = variable_memory.copy(self._value)
        return self._value

    def draft(self, xp: Namespace) -> tuple[Array, Array | None]:
        """Return the array to change, after `begin_change`, and the value to fill it with first, if it has holders.

        `settle` makes it the value. Filling and changing it block by block costs less than a change of a copy.
        FailedPreconditionError if the variable is not initialized.
        """
        self._checked(self._value)
        return (self._room(xp), self._value) if self._is_held() else (self._value, None)

    def _room(self, xp: Namespace) -> Array:
        room = LENDABLE.take(self._value.shape, self._value.dtype) if LENDABLE.has(self._value) else None
        if room is not None:
            return room
        # The count is that of an attribute: the count of a local variable depends on the version of Python.
        free = COUNTS_ARE_EXACT and self._spare is not None and sys.getrefcount(self._spare) == _ONLY_OURS
        spare, self._spare = self._spare, None
        return spare if free and spare.shape == self._value.shape else variable_memory.empty_like(xp, self._value)

    def _is_held(self) -> bool:
        """Whether others may hold the present array, too, or its memory."""
        if sys.getrefcount(self._value) > _ONLY_OURS or not COUNTS_ARE_EXACT:
            return True
        return not is_plain(self._value) and not LENDABLE.is_unshared(self._value)

    def settle(self, drafted: Array) -> None:
        """Make the array of `draft`, filled and changed, the value.

        The memory of the old value is kept, and used again when its other holders have released it: on many machines
        new memory costs more than the rest of an update. A GPU keeps such memory itself.
        """
        if drafted is not self._value and isinstance(drafted, np.ndarray) and is_plain(self._value):
            self._spare = self._value
        self._value = drafted

    def change(self, function: Callable[[Array], object], journal: Journal | None = None) -> Array:
        """Run function(array), which changes the array in place, atomically. Returns the new value."""
        self.begin_change()
        try:
            if self._author is not journal:
                self.note(journal)
            function(self.writable())
            return self._value
        finally:
            self.end_change()

    def adopt(self, value: Array) -> Array:
        """Replace the value by `value` itself, which must not change any more. InvalidArgumentError as in `assign`."""
        self._check_shape(value)
        with self._lock:
            self.note(None)
            self._value = value
        return value

    def present(self) -> Array:
        """The present value; None if there is none."""
        return self._value

    def move(self, value: Array, copy: Array) -> None:
        """Hold `copy`, which has the same elements, in place of `value`, unless that is the value no longer."""
        if self._lock.acquire(blocking=False):  # else the value changes now
            if self._value is value:
                self._value, self._spare = copy, None
            self._lock.release()

    def release(self) -> None:
        """Forget the value."""
        moved = LENDABLE.has(self._value)
        self._value = self._spare = self._author = None
        if moved:
            LENDABLE.tidy()

    def __repr__(self) -> str:
        return f"<VariableState {self.name!r} {self.spec}{'' if self.initialized else ', not initialized'}>"


def read_together(states: Iterable[VariableState]) -> dict[VariableState, Array]:
    """Return the values of several variables at one moment, without half of a change of any of them.

    Waits for changes in progress, each the time of one kernel. All calls take the locks in the same order.
    FailedPreconditionError if one is not initialized.
    """
    held = sorted(states, key=id)
    taken: list[VariableState] = []
    try:
        for state in held:
            state.begin_change()
            taken.append(state)
        return {state: state._checked(state._value) for state in held}
    finally:
        for state in taken:
            state.end_change()
