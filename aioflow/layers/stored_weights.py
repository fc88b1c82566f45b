"""The weights of a model, and the session that they live in."""

import asyncio
import contextlib
import os
import weakref
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Any, Final, Self

from aioflow import errors
from aioflow.checkpoint import Checkpoint, export_safetensors, import_safetensors
from aioflow.files.byte_count import Progress
from aioflow.graph.building import get_default_graph
from aioflow.graph.default_session import default_session
from aioflow.graph.graph import Graph
from aioflow.layers.fed import value_of
from aioflow.layers.layer import Layer
from aioflow.layers.numbers import is_sequence, switch
from aioflow.layers.own_session import OwnSession
from aioflow.layers.recurrent_loop import STATES
from aioflow.library.control import group
from aioflow.library.state import report_uninitialized_variables
from aioflow.library.variables import Variable
from aioflow.session import Session
from aioflow.tensors import nest
from aioflow.tensors.dtypes import Array
from aioflow.tensors.recursion import safe_repr
from aioflow.train.saver import Saver

_PLAIN: Final = ".safetensors"
"""The end of the path of a plain file."""


class StoredWeights(Layer):
    """A layer whose weights are read, set, saved and restored.

    Its weights live in a session: the one given as `session=`, else the innermost one entered with `async with`, else
    one that the models of a graph share. It closes with the last of them, by `await model.close()` or `async with
    model:`. Weights without a value are initialized when the model is first used in a session.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.inputs: Any = None
        self.outputs: Any = None
        self._own_session: OwnSession | None = None
        self._kept: dict[Any, Any] = {}
        self._ready: weakref.WeakKeyDictionary[Session, set[Any]] = weakref.WeakKeyDictionary()

    @property
    def graph(self) -> Graph:
        """The graph of its inputs and weights; the default graph before they are known."""
        if self.inputs is not None:
            graph: Graph = nest.flatten(self.inputs)[0].graph
            return graph
        return self.weights[0].graph if self.weights else get_default_graph().root

    async def get_weights(self, session: Session | None = None) -> list[Array]:
        """The values of its weights, in their order."""
        used = self._session_for(session)
        await self.initialize(self.weights, used)
        return list(await used.run(self.weights))

    async def set_weights(self, weights: Sequence[Any], session: Session | None = None) -> None:
        """Give its weights these values, in one step. ValueError if their number or shapes differ."""
        variables = self.weights
        if not is_sequence(weights):
            raise TypeError(f"weights is a list with an array for each weight, not {safe_repr(weights)}")
        if len(weights) != len(variables):
            raise ValueError(f"{self.name!r} has {len(variables)} weights, and {len(weights)} values were given")
        await self.assign_all(variables, weights, self._session_for(session))

    async def reset_states(self, session: Session | None = None) -> None:
        """Give the states of its stateful layers their first values, zeros, and sequences begin anew."""
        used, kept = self._session_for(session), set(self.graph.get_collection(STATES))
        await self.initialize(self.weights, used)
        await used.run([weight.initializer for weight in self.weights if weight in kept])

    async def assign_all(self, variables: Sequence[Variable], values: Sequence[Any], session: Session) -> None:
        """Give the variables these values, by operations that are built once."""
        key = "assign", *[id(variable) for variable in variables]
        if key not in self._kept:
            with self.graph.as_default():
                fed = [value_of(variable) for variable in variables]
                done = group(*[each.assign(value).op for each, value in zip(variables, fed, strict=True)])
            self._kept[key] = fed, done
        fed, done = self._kept[key]
        await session.run(done, dict(zip(fed, values, strict=True)))
        await self._copy_to_replicas(session)

    async def _copy_to_replicas(self, session: Session) -> None:
        """Give the copies of weights on other devices the values of the weights."""

    async def save_weights(self, path: str, session: Session | None = None, progress: Progress | None = None) -> str:
        """Save its weights, by their names. Returns the path.

        A path that ends in ".safetensors" becomes one plain file, which other programs read; any other path a
        checkpoint, that each task with weights writes its part of, and of which `af.train.Saver.save` has `progress`.
        """
        used, saver = self._session_for(session), self._saver()
        await self.initialize(self.weights, used)
        if not os.fspath(path).endswith(_PLAIN):
            return await saver.save(used, path, progress=progress)
        values = await used.run({weight.op.name: weight for weight in self.weights})
        return await asyncio.to_thread(export_safetensors, path, values)

    async def load_weights(
        self,
        path: str,
        session: Session | None = None,
        progress: Progress | None = None,
        skip_mismatch: bool = False,
    ) -> list[str]:
        """Restore its weights, by their names, from a checkpoint or a plain safetensors file.

        Args:
            path: that of the checkpoint, or of the file.
            session: the session.
            progress: as for `af.train.Saver.restore`.
            skip_mismatch: whether weights that are missing or have another shape keep their values; else nothing is
                changed if there is one.

        Returns:
            The names of the weights that were not restored.

        Raises:
            NotFoundError: there is no checkpoint or file, or weights are missing.
            InvalidArgumentError: weights have another shape; with `skip_mismatch`, all are missing or have one.
        """
        used, saver, found = self._session_for(session), self._saver(), self.weights
        plain = await asyncio.to_thread(_is_plain, path)
        if switch("skip_mismatch", skip_mismatch):
            found = await asyncio.to_thread(_fitting, path, found, plain)
            await self.initialize(self.weights, used)
        restore = saver.import_safetensors if plain else saver.restore
        await restore(used, path, variables=found if skip_mismatch else None, progress=progress)
        await self._copy_to_replicas(used)
        kept = set(found)
        return [weight.op.name for weight in self.weights if weight not in kept]

    def _saver(self) -> Saver:
        if "saver" not in self._kept:
            if not self.weights:
                raise ValueError(f"{self.name!r} has no weights yet: it makes them when it is first called")
            with self.graph.as_default():
                self._kept["saver"] = Saver({weight.op.name: weight for weight in self.weights}, max_to_keep=None)
        saver: Saver = self._kept["saver"]
        return saver

    # The session

    def _session_for(self, given: Session | None) -> Session:
        """The session to use. TypeError if it is none, ValueError if it runs another graph."""
        if not isinstance(given, Session | None):
            raise TypeError(f"session is an af.Session, not {safe_repr(given)}")
        entered = default_session.get()
        session = given or (entered if isinstance(entered, Session) and entered.graph is self.graph else None)
        if session is None:
            if self._own_session is None or self._own_session.session.closed:
                self._own_session = OwnSession.of(self)
            return self._own_session.session
        if session.graph is not self.graph:
            raise ValueError(f"the session runs another graph than that of {self.name!r}")
        return session

    async def close(self) -> None:
        """Leave the session of the models of the graph; the last one closes it, and with it the values of weights."""
        if self._own_session is not None:
            left, self._own_session = self._own_session, None
            await left.leave(self)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def initialize(self, variables: Sequence[Variable], session: Session) -> None:
        """Initialize those of the variables that have no value in the session."""
        key = "missing", *[id(variable) for variable in variables]
        ready = self._ready.setdefault(session, set())
        if key in ready:
            return
        if key not in self._kept:
            with self.graph.as_default():
                self._kept[key] = report_uninitialized_variables(variables)
        missing = {bytes(name).decode() for name in await session.run(self._kept[key])}
        if missing:
            await session.run([each.initializer for each in variables if each.op.name in missing])
        ready.add(key)

    @contextlib.contextmanager
    def _using(self, session: Session) -> Iterator[None]:
        """If the block fails, the next use looks again which variables have a value: a task may have lost its own."""
        try:
            yield
        except BaseException:
            self._ready.pop(session, None)
            raise


def _is_plain(path: str) -> bool:
    """Whether the path is that of a plain file, which may be missing, and of no checkpoint. Blocks."""
    return os.path.isfile(path) or (os.fspath(path).endswith(_PLAIN) and not os.path.isdir(path))


def _fitting(path: str, weights: Sequence[Variable], plain: bool) -> list[Variable]:
    """The weights that a checkpoint or a plain file has, in their shapes. InvalidArgumentError if there are none."""
    stored = (import_safetensors(path) if plain else Checkpoint.open(path)).tensors
    shapes = {name: [*each.shape] for name, each in stored.items()}
    found = [weight for weight in weights if shapes.get(weight.op.name) == weight.shape.as_list()]
    if not found:
        raise errors.InvalidArgumentError(
            f"{path!r} has none of the {len(weights)} weights in its shape: the first one is {weights[0].op.name!r} of "
            f"{weights[0].shape}, and the file has {', '.join(shapes)[:200]}"
        )
    return found
