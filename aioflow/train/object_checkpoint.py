"""`af.train.Checkpoint`: variables saved under the names of the attributes that hold them.

The names are those of TensorFlow's checkpoints of objects, `model/w/.ATTRIBUTES/VARIABLE_VALUE`. So a checkpoint of
TensorFlow is read where the objects have the same attributes.
"""

import asyncio
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final

from aioflow.config import RunOptions
from aioflow.files.filesystem import Path, as_name
from aioflow.graph.default_session import current_session
from aioflow.kernels.state.variables import is_variable_initialized
from aioflow.library.control import init_scope
from aioflow.library.module import Module
from aioflow.library.mutable_tables import MutableTable
from aioflow.library.partitioned_variables import PartitionedVariable
from aioflow.library.variables import Variable
from aioflow.session import Session
from aioflow.tensors.dtypes import int64
from aioflow.tensors.recursion import safe_repr
from aioflow.train.checkpoints import list_variables
from aioflow.train.optimizer import Optimizer
from aioflow.train.saver import Saver

_VALUE: Final = "/.ATTRIBUTES/VARIABLE_VALUE"
_SLOT: Final = "/.OPTIMIZER_SLOT/"
_OBJECT_GRAPH: Final = "_CHECKPOINTABLE_OBJECT_GRAPH"
_LEAVES: Final = (Variable, PartitionedVariable, MutableTable)


class CheckpointStatus:
    """What a restore of a `Checkpoint` has matched.

    Attributes:
        missing: the names of variables that the checkpoint does not have, and which keep what they hold.
        unused: the names in the checkpoint that no variable has.

    Examples:
        >>> checkpoint = af.train.Checkpoint(w=af.Variable(1.0))
        >>> await session.run(checkpoint.w.initializer)
        >>> status = await checkpoint.restore(await checkpoint.save("run/objects"))
        >>> status.assert_consumed().missing
        ()
    """

    def __init__(self, variables: Mapping[str, Any], restored: Collection[str], stored: Collection[str]) -> None:
        self._variables: Final = variables
        self._restored: Final = restored
        self.missing: Final = tuple([name for name in variables if name not in restored])
        self.unused: Final = tuple([name for name in stored if name not in variables and name != _OBJECT_GRAPH])

    def assert_consumed(self) -> "CheckpointStatus":
        """Raise AssertionError unless each variable was restored, and nothing is left in the checkpoint."""
        if self.unused:
            raise AssertionError(f"no variable has {', '.join(self.unused)} of the checkpoint")
        return self.assert_existing_objects_matched()

    def assert_existing_objects_matched(self) -> "CheckpointStatus":
        """Raise AssertionError unless each variable was restored."""
        if self.missing:
            raise AssertionError(f"the checkpoint does not have {', '.join(self.missing)}")
        return self

    def assert_nontrivial_match(self) -> "CheckpointStatus":
        """Raise AssertionError unless a variable was restored besides the count of saves."""
        if not [name for name in self._restored if name != f"save_counter{_VALUE}"]:
            raise AssertionError("the checkpoint has no variable of these objects")
        return self

    def expect_partial(self) -> "CheckpointStatus":
        """Return it. What was not matched is never logged."""
        return self

    async def initialize_or_restore(self, session: Session | None = None) -> None:
        """Initialize the variables that the checkpoint does not have."""
        chosen = [self._variables[name] for name in self.missing]
        initializers = [part.initializer for each in chosen for part in _parts(each)]
        if initializers:
            await _session(session).run(initializers)


class Checkpoint:
    """Saves and restores the variables of objects, under the names of the attributes that hold them.

        checkpoint = af.train.Checkpoint(model=model, optimizer=optimizer, step=step)
        path = await checkpoint.save("run/ckpt")
        (await checkpoint.restore(path)).assert_consumed()

    The objects are variables, lookup tables that steps change, Modules, optimizers, layers, other Checkpoints, and
    lists and dicts of them. A variable that several attributes hold is saved once, under the shortest name. Those that
    optimizers create later join at the next save or restore. Checkpoints of TensorFlow's objects with the same
    attributes are restored, too.

    Args:
        kwargs: the objects; further ones may be set as attributes.

    Attributes:
        save_counter: how many checkpoints `save` has written: a variable of 64 bits.

    Raises:
        ValueError: an object is none of these.

    Examples:
        >>> w = af.Variable(7.0)
        >>> await session.run(w.initializer)
        >>> path = await af.train.Checkpoint(model={"w": w}).save("objects/ckpt")
        >>> path, [name for name, shape in af.train.list_variables(path)][0]
        ('objects/ckpt-1', 'model/w/.ATTRIBUTES/VARIABLE_VALUE')
    """

    def __init__(self, **kwargs: Any) -> None:
        for name, value in sorted(kwargs.items()):
            if not _is_trackable(value):
                raise ValueError(
                    f"Checkpoint saves variables, tables, Modules, optimizers, layers, and lists and dicts of them; "
                    f"{name} is {safe_repr(value)}"
                )
            setattr(self, name, value)
        with init_scope():
            self.save_counter: Variable = Variable(0, trainable=False, name="save_counter", dtype=int64)
            self._counted: Final = self.save_counter.assign_add(1)
            self._is_counting: Final = is_variable_initialized(self.save_counter.handle)
        self._savers: Final[dict[tuple[str, ...], Saver]] = {}

    async def save(self, file_prefix: Path, session: Session | None = None, options: RunOptions | None = None) -> str:
        """Save a checkpoint at `file_prefix-N`, where N counts the saves, and return its path.

        Args:
            file_prefix: the first part of the path.
            session: the session of the variables; the default session by default.
            options: with a time limit.

        Raises:
            FailedPreconditionError: a variable has no value.
        """
        chosen = _session(session)
        number = await self.count(chosen)
        return await self.write(f"{as_name(file_prefix)}-{number}", chosen, options)

    async def write(self, file_prefix: Path, session: Session | None = None, options: RunOptions | None = None) -> str:
        """Save a checkpoint at that path, and return it. See `save`."""
        chosen = await self._counting(session)
        return await self.saver().save(chosen, file_prefix, options=options)

    async def count(self, session: Session | None = None) -> int:
        """Add 1 to `save_counter` in a session, and return it."""
        chosen = await self._counting(session)
        return int(await chosen.run(self._counted))

    def saver(self) -> Saver:
        """Return the Saver of the variables that its objects have now."""
        return self._saver(self._named())

    async def _counting(self, session: Session | None) -> Session:
        """Return the session, in which the count of saves has a value from now on."""
        chosen = _session(session)
        if not await chosen.run(self._is_counting):
            await chosen.run(self.save_counter.initializer)
        return chosen

    async def restore(
        self, save_path: Path | None, session: Session | None = None, options: RunOptions | None = None
    ) -> CheckpointStatus:
        """Restore the variables that a checkpoint has, and return which objects it has.

        Args:
            save_path: the path of the checkpoint; None restores nothing, as where there is none yet.
            session: the session of the variables; the default session by default.
            options: with a time limit.

        Raises:
            NotFoundError: there is no checkpoint.
            InvalidArgumentError: a variable has another shape or dtype.
        """
        named = self._named()
        if save_path is None:
            return CheckpointStatus(named, (), ())
        stored = dict(await asyncio.to_thread(list_variables, as_name(save_path)))
        there = {name: each for name, each in named.items() if name in stored}
        if there:
            await self._saver(there).restore(_session(session), save_path, options)
        return CheckpointStatus(named, there, stored)

    async def read(
        self, save_path: Path, session: Session | None = None, options: RunOptions | None = None
    ) -> CheckpointStatus:
        """Do what `restore` does, for a checkpoint of `write`."""
        return await self.restore(save_path, session, options)

    def _named(self) -> dict[str, Any]:
        """The variables and tables of its objects, by their names in checkpoints."""
        with self.save_counter.graph.as_default():
            return _named(self)

    def _saver(self, named: Mapping[str, Any]) -> Saver:
        key = tuple(named)
        if key not in self._savers:
            with init_scope():
                self._savers[key] = Saver(
                    {
                        name: _parts(each) if isinstance(each, PartitionedVariable) else each
                        for name, each in named.items()
                    },
                    max_to_keep=0,
                )
        return self._savers[key]


def _session(session: Session | None) -> Session:
    chosen = current_session() if session is None else session
    if not isinstance(chosen, Session):
        raise TypeError(f"a Checkpoint is saved in an af.Session, not {safe_repr(chosen)}")
    return chosen


def _parts(each: Any) -> list[Any]:
    return [*each] if isinstance(each, PartitionedVariable) else [each] if isinstance(each, Variable) else []


# Names


def _named(root: Checkpoint) -> dict[str, Any]:
    """The variables and tables of objects, by their names in checkpoints: breadth first, each once."""
    found: dict[int, tuple[str, Any]] = {}
    optimizers: list[tuple[str, Optimizer]] = []
    todo: list[tuple[str, Any]] = [("", root)]
    seen = set[int]()
    for path, value in todo:  # it grows
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, _LEAVES):
            found[id(value)] = path, value
        elif isinstance(value, Optimizer):
            optimizers.append((path, value))
        todo += [(f"{path}/{_escaped(name)}" if path else _escaped(name), each) for name, each in _children(value)]
    whole = {f"{path}{_VALUE}": each for path, each in found.values()}
    return whole | dict(_of_optimizers(optimizers, [*found.values()]))


def _of_optimizers(
    optimizers: Sequence[tuple[str, Optimizer]], found: Sequence[tuple[str, Any]]
) -> Iterator[tuple[str, Variable]]:
    """The slots of optimizers, beside their variables, and the rest of their variables."""
    for path, optimizer in optimizers:
        slots = dict[int, Variable]()
        for name in optimizer.get_slot_names():
            for place, variable in found:
                slot = optimizer.get_slot(variable, name) if isinstance(variable, Variable) else None
                if slot is not None:
                    slots[id(slot)] = slot
                    yield f"{place}{_SLOT}{path}/{name}{_VALUE}", slot
        for variable in optimizer.variables():
            if id(variable) not in slots:
                yield f"{path}/{_escaped(variable.op.name.rpartition('/')[2])}{_VALUE}", variable


def _children(value: Any) -> list[tuple[str, Any]]:
    """The parts of an object that are saved, by their names in it."""
    if isinstance(value, (*_LEAVES, Optimizer)):
        return []
    if isinstance(value, Mapping):
        items = [(name, each) for name, each in value.items() if isinstance(name, str)]
    elif isinstance(value, (list, tuple)):
        items = [(str(index), each) for index, each in enumerate(value)]
    elif isinstance(value, (Module, Checkpoint)):
        items = [(name, each) for name, each in vars(value).items() if not name.startswith("_")]
    else:
        items = _weights(value)
    return [(name, each) for name, each in items if _is_trackable(each)]


def _weights(layer: Any) -> list[tuple[str, Any]]:
    """The weights of a layer by the last parts of their names, if these differ, else by their whole names."""
    weights: Sequence[Variable] = layer.weights
    short = [each.op.name.rpartition("/")[2] for each in weights]
    names = short if len({*short}) == len(short) else [each.op.name for each in weights]
    return [*zip(names, weights, strict=True)]


def _is_trackable(value: Any) -> bool:
    kinds = *_LEAVES, Optimizer, Module, Checkpoint, Mapping, list, tuple
    return isinstance(value, kinds) or hasattr(type(value), "trainable_weights")


def _escaped(name: str) -> str:
    return name.replace(".", "..").replace("/", ".S")
