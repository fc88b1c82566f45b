"""`af.train.Saver`: saves variables in checkpoints and restores them."""

import asyncio
import logging
import os
import secrets
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal, Self

from aioflow import errors
from aioflow.checkpoint import Retention
from aioflow.checkpoint.name_map import NameMap, as_path, renamed
from aioflow.config import RunOptions, expect
from aioflow.files.byte_count import Progress
from aioflow.files.filesystem import Path, as_name
from aioflow.graph.building import get_default_graph
from aioflow.graph.graph import Graph
from aioflow.graph.graph_keys import GraphKeys
from aioflow.graph.operation import Operation, Tensor
from aioflow.library.mutable_tables import MutableTable
from aioflow.library.variables import Variable
from aioflow.session import Session
from aioflow.tensors.recursion import safe_repr
from aioflow.train.byte_progress import shown
from aioflow.train.checkpoint_messages import SaverDef
from aioflow.train.drafts import Draft, checkpoint_path, live, owner, step_number
from aioflow.train.savable import SavedVariable, all_to_save, to_save, variable_name
from aioflow.train.saver_names import Options, nodes_from_plain, texts, to_plain
from aioflow.train.saving import Nodes, OnFailure, RestoreOps, Writing, Writings, build, run_state
from aioflow.train.step_counter import between_steps

if TYPE_CHECKING:
    from aioflow.saved_model.meta_graph import MetaGraphDef

_log: Final = logging.getLogger("aioflow.train")
Mode = Literal["consistent", "uncoordinated"]
"""The ways to take values: all variables of a task at one moment, or each when it is written."""


class Saver:
    """Saves variables of a graph in checkpoints, and restores them [P15 section 3.3; P16 section 4.3].

        saver = af.train.Saver()
        path = await saver.save(session, "run/model.ckpt", step)
        await saver.restore(session, path)

    A checkpoint is a folder: safetensors files, one for each task with variables, written by the tasks themselves, an
    index in Hugging Face's form, and a manifest, which is written last and makes it valid. An earlier checkpoint stays
    whole whatever happens.

    `save` waits until all is written. `save_async` waits until the values are taken, and training goes on while they
    are written: only values that an update changes meanwhile are copied. The Saver belongs to the graph of its
    variables and builds its operations at once. Any number of sessions may use it.

    Args:
        var_list: the variables to save: a list, or a dict from names in the checkpoint to variables, or to lists of
            variables that hold consecutive rows of a tensor. By default all global variables of the default graph.
            Lookup tables that steps change, or their handles, count as variables here. The default has all of them but
            those that were made with `checkpoint=False`.
        reshape: whether to restore a tensor of another shape with as many elements; not into variables that hold rows.
        sharded: whether each task with variables writes its own file, instead of sending all to one.
        max_to_keep: number of checkpoints to keep; None or 0 for all.
        keep_checkpoint_every_n_hours: one checkpoint in this many hours stays, in addition to the newest ones.
        name: the name scope of its operations; `save` by default.
        pad_step_number: whether steps in paths have eight digits, so that names sort as steps do.
        mode: "consistent": all variables are taken at a step boundary: runs of the session that change them end first,
            and further ones wait until the values are taken, which copies nothing. Steps of other sessions do not
            wait, except those of the replicas of a SyncReplicasOptimizer. If runs wait for each other, so that there
            is no such moment in 10 s, the values are taken during steps; the log and the manifest (`step_boundary`)
            say so. "uncoordinated": each variable is taken when its task writes it.
        state: whether to save also the position of the run, so that a restored run continues there: the elements of
            queues and of waiting enqueues, the positions of readers, and the counts of random operations. Elements
            that a running step has taken from a queue or reader and not put into another are lost. The contents of
            accumulators, barriers and staging areas are not saved; the log says so.
        extra: whether to restore checkpoints that hold further tensors; by default only if `var_list` is given.
        max_in_flight: the most checkpoints that are written at the same time; a further one waits.
        on_failure: called at once with the path and the error of each failing write.
        defer_build: whether `build` is called later, when all variables are there.
        allow_empty: whether there may be nothing to save; `save` and `restore` then do nothing.
        saver_def: a result of `to_proto`: the Saver whose operations are in the default graph already. Excludes the
            rest.
        import_scope: the scope that the operations of `saver_def` were imported under.

    Attributes:
        mode: the way to take values.
        state: whether checkpoints also hold the position of the run in its inputs.
        variables: the variables to save and restore.

    Raises:
        ValueError: there is nothing to save, or two variables have one name.
        TypeError: an element of `var_list` is not a variable.

    Examples:
        >>> state, saver = af.Variable(7), af.train.Saver()
        >>> await session.run(state.initializer)
        >>> path = await saver.save(session, "run/model", 100)
        >>> path, af.train.load_variable(path, state.op.name)
        ('run/model-100', array(7, dtype=int32))
    """

    def __init__(
        self,
        var_list: Sequence[Variable | MutableTable | Tensor]
        | Mapping[str, Variable | MutableTable | Tensor | Sequence[Variable]]
        | None = None,
        reshape: bool = False,
        sharded: bool = True,
        max_to_keep: int | None = 5,
        keep_checkpoint_every_n_hours: float = 10000.0,
        name: str | None = None,
        pad_step_number: bool = False,
        *,
        mode: Mode = "consistent",
        state: bool = False,
        extra: bool | None = None,
        max_in_flight: int = 1,
        on_failure: OnFailure | None = None,
        defer_build: bool = False,
        allow_empty: bool = False,
        saver_def: Mapping[str, Any] | None = None,
        import_scope: str | None = None,
    ) -> None:
        if saver_def is not None:
            stored = Options.from_plain(saver_def)
            mode, state, sharded, max_to_keep, keep_checkpoint_every_n_hours, pad_step_number = stored
        if mode not in ("consistent", "uncoordinated"):
            raise ValueError(f"mode must be 'consistent' or 'uncoordinated', not {safe_repr(mode)}")
        self.mode: Final[Mode] = mode
        self.state: Final = state
        self.variables: tuple[Variable, ...] = ()
        self._sharded = sharded
        self._pad = pad_step_number
        self._retention = Retention(max_to_keep or 0, keep_checkpoint_every_n_hours, time.time())
        self._writings: Final = Writings(max_in_flight, on_failure)
        self._handles: frozenset[Operation] = frozenset()
        self._built: Nodes | None = None
        self._is_empty = False
        self._plan = var_list, name or "save", var_list is not None if extra is None else extra, reshape, allow_empty
        if saver_def is not None:
            self._find(get_default_graph(), saver_def, import_scope)
        elif not defer_build:
            self.build()

    def build(self) -> None:
        """Build the operations, which `defer_build` has put off. Does nothing if they are there.

        ValueError if there is nothing to save, or two variables have one name.
        """
        if self._built is not None or self._is_empty:
            return
        var_list, name, extra, reshape, allow_empty = self._plan
        chosen = all_to_save(get_default_graph()) if var_list is None else var_list
        if allow_empty and not chosen:
            self._is_empty = True
            return
        given = to_save(chosen)
        graph = given[0].home.graph
        saved = [*given, *(run_state(graph, given) if self.state else ())]
        self.variables = tuple([each.variable for each in given if isinstance(each, SavedVariable)])
        self._handles = frozenset(each.home for each in given)
        self._built = build(
            graph, saved, name, sharded=self._sharded, consistent=self.mode == "consistent", extra=extra,
            reshape=reshape,
        )  # fmt: skip

    @property
    def _nodes(self) -> Nodes:
        if self._built is None:
            raise RuntimeError("build() this Saver first: it was made with defer_build=True")
        return self._built

    # As plain data

    def as_saver_def(self) -> SaverDef:
        """Return its options, and the names of its main operations, in TensorFlow's message."""
        feeds, every = self._nodes.feeds, self._nodes.every
        return SaverDef(
            feeds.path.name, self._nodes.saved.name, every.given.op.name, self._retention.max_to_keep, self._sharded,
            self._retention.every_hours, SaverDef.V2,
        )  # fmt: skip

    def to_proto(self, export_scope: str | None = None) -> dict[str, Any] | None:
        """Return the names of its operations and its options, for `saver_def`. None if it lies outside `export_scope`.

        A function to call on failing writes is not stored.
        """
        scope = export_scope.rstrip("/") + "/" if export_scope else ""
        kept = self._retention.max_to_keep, self._retention.every_hours
        options = Options(self.mode, self.state, self._sharded, *kept, self._pad)
        return to_plain(options, [each.op for each in self.variables], self._handles, self._nodes, scope)

    @staticmethod
    def from_proto(saver_def: Mapping[str, Any], import_scope: str | None = None) -> "Saver":
        """Return the Saver of `to_proto`; its operations are in the default graph. KeyError if they are not."""
        return Saver(saver_def=saver_def, import_scope=import_scope)

    def _find(self, graph: Graph, parts: Mapping[str, Any], import_scope: str | None) -> None:
        prefix = import_scope.rstrip("/") + "/" if import_scope else ""
        self._handles = frozenset(graph.get_operation_by_name(prefix + name) for name in texts(parts["handles"]))
        variables = {each.op.name: each for each in graph.get_collection(GraphKeys.GLOBAL_VARIABLES)}
        names = [prefix + name for name in texts(parts["variables"])]
        self.variables = tuple([variables[name] for name in names if name in variables])
        self._built = nodes_from_plain(parts["nodes"], graph, prefix)

    def export_meta_graph(
        self, filename: Path | None = None, collection_list: Iterable[str] | None = None,
        export_scope: str | None = None, clear_devices: bool = False, clear_extraneous_savers: bool = False,
    ) -> "MetaGraphDef":  # fmt: skip
        """Return the graph with its collections and this Saver; see `af.train.export_meta_graph`."""
        from aioflow.saved_model.meta_graph import export_meta_graph

        return export_meta_graph(
            filename, self.to_proto(export_scope), collection_list, self._nodes.saved.graph, export_scope,
            clear_devices, clear_extraneous_savers,
        )  # fmt: skip

    # Saving

    async def save(
        self,
        session: Session,
        save_path: Path,
        global_step: int | Variable | Tensor | None = None,
        options: RunOptions | None = None,
        *,
        progress: Progress | None = None,
    ) -> str:
        """Save a checkpoint at `save_path`, or at `save_path-N` for a global step N. Returns its path.

        Deletes older ones as `max_to_keep` says, and replaces one at the same path. Cancelling gives up the save: an
        earlier checkpoint stays, and a draft may remain, which a later save removes. A Saver with nothing to save,
        which `allow_empty` permits, returns an empty text.

        Args:
            session: the session of the variables.
            save_path: a path on the writing tasks, or a URL.
            global_step: a number, or a tensor or variable with the number.
            options: with a time limit for taking the values, and for writing them.
            progress: called with the written and with all bytes of the tasks in this process, such as
                `af.train.Progress(unit="byte")`.

        Raises:
            FailedPreconditionError: a variable has no value.
            PermissionDeniedError, ResourceExhaustedError: the task may not write there, or its disk is full.
            RuntimeError: `build` was not called.
        """
        if self._is_empty:
            return ""
        with shown(progress):
            writing = await self.save_async(session, save_path, global_step, options)
            try:
                return await writing
            except BaseException:
                await writing.cancel()
                raise

    async def save_async(
        self,
        session: Session,
        save_path: Path,
        global_step: int | Variable | Tensor | None = None,
        options: RunOptions | None = None,
    ) -> Writing:
        """Begin a save: the values are taken when this returns, if the mode is "consistent", and then written.

        While `max_in_flight` others are being written it waits. If a write fails the log says so at once, and `finish`
        raises the error unless a task has awaited the result.
        """
        _check(session, options)
        limit = None if options is None else options.timeout
        token = owner() + secrets.token_hex(8)
        try:
            async with asyncio.timeout(limit):
                await self._writings.room()
                live.add(token)
                draft, write = await self._begin_write(session, token, save_path, global_step, options)
        except BaseException as error:
            self._give_up(token)
            if isinstance(error, TimeoutError) and not isinstance(error, errors.OpError):
                raise errors.DeadlineExceededError(
                    f"the values for {as_name(save_path)!r} were not taken in {limit:g} s: other checkpoints were "
                    "being written, or steps that change the variables did not end"
                ) from None
            raise
        return self._writings.begin(draft.path, self._written(session, draft, write))

    def _give_up(self, token: str) -> None:
        """Delete the draft of that token, if it was begun."""
        if token in live:
            self._writings.withdraw()
            live.remove(token)

    async def finish(self) -> None:
        """Wait until no write is under way. Raises the error of a failed write that no task has got yet."""
        await self._writings.finish()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Wait for the writes under way; if the block raised, cancel them."""
        if error is None:
            await self.finish()
        else:
            await self._writings.cancel()

    async def _begin_write(
        self, session: Session, token: str, save_path: Path, step: Any, options: RunOptions | None
    ) -> tuple[Draft, Callable[[], Awaitable[Any]]]:
        """Return the draft and its write. In consistent mode the values are taken now."""
        nodes, given = self._nodes, self._nodes.feeds
        if nodes.taken is None:
            draft = await self._draft(session, token, save_path, step, {"mode": self.mode})
            return draft, lambda: session.run(nodes.saved, draft.feeds(given), options)
        async with between_steps(session, nodes.taken.graph, self._handles) as reached:
            facts = {"mode": self.mode, "step_boundary": reached}
            draft = await self._draft(session, token, save_path, step, facts)
            feeds = draft.feeds(given)
            handle = await session.partial_run_setup([nodes.taken, nodes.saved], list(feeds), options)
            try:
                await session.partial_run(handle, nodes.taken, feeds)
            except BaseException:
                await handle.stop()
                raise
        return draft, lambda: session.partial_run(handle, nodes.saved)

    async def _draft(self, session: Session, token: str, path: Path, step: Any, facts: dict[str, Any]) -> Draft:
        number = await step_number(session, step)
        return Draft(checkpoint_path(path, number, 8 if self._pad else 1), token, {**facts, "global_step": number})

    async def _written(self, session: Session, draft: Draft, write: Callable[[], Awaitable[Any]]) -> str:
        """Return the path, after the checkpoint is complete and checkpoints beyond the limit are deleted."""
        given = self._nodes.feeds
        try:
            await write()
        except Exception as error:
            await self._run_quietly(session, self._nodes.discard, {given.path: draft.path, given.token: draft.token})
            if session.closed:
                raise errors.CancelledError(f"the session was closed while {draft.path!r} was written") from error
            raise
        finally:
            live.remove(draft.token)
        old, kept = self._retention.saved(draft.path, time.time()), self.last_checkpoints
        tidied = {
            given.path: draft.path, given.token: owner(), given.old: old, given.kept: kept, given.live: sorted(live)
        }  # fmt: skip
        await self._run_quietly(session, self._nodes.tidy, tidied)
        return draft.path

    async def _run_quietly(self, session: Session, operation: Operation, feeds: dict[Tensor, Any]) -> None:
        """Files that remain after a failure do no harm."""
        try:
            await session.run(operation, feeds)
        except (errors.OpError, RuntimeError) as error:
            text = error.message if isinstance(error, errors.OpError) else str(error)
            _log.info("%s of %r: %s", operation.type, feeds[self._nodes.feeds.path], text)

    # Restoring

    async def restore(
        self,
        session: Session,
        save_path: Path,
        options: RunOptions | None = None,
        *,
        variables: Sequence[Variable | MutableTable | Tensor] | None = None,
        progress: Progress | None = None,
    ) -> None:
        """Restore the variables from a checkpoint, which also initializes them.

        Reads everything before the first assignment: an error or a cancellation until then changes nothing.

        Args:
            session: the session of the variables.
            save_path: the path of the checkpoint.
            options: with a time limit for reading, and for assigning.
            variables: the variables to restore, among the saved ones; only these are read and compared. By default all.
            progress: called with the read and with all bytes, as in `save`.

        Raises:
            NotFoundError: there is no checkpoint, or all its differences from the variables are missing tensors.
            InvalidArgumentError: a tensor has another shape or dtype, or is not wanted. The text names each difference.
            DataLossError: it is damaged.
            UnimplementedError: it has another version.
            ValueError: `save_path` is None, one of `variables` is not saved, or the list is empty.
            RuntimeError: `build` was not called.
        """
        if self._is_empty:
            return
        with shown(progress):
            await self._restore(session, save_path, False, options, variables)

    async def import_safetensors(
        self,
        session: Session,
        path: Path,
        options: RunOptions | None = None,
        *,
        variables: Sequence[Variable] | None = None,
        name_map: NameMap | None = None,
        progress: Progress | None = None,
    ) -> None:
        """Restore from a plain safetensors file, or a folder of them with an index in Hugging Face's form.

        The tensors have the layouts of the variables, and their names after the `name_map`, which is that of
        `af.porting.import_weights`; this function also converts layouts.
        """
        _check(session, options)
        renamed = [] if name_map is None else await self._renamed(session, path, name_map, options)
        with shown(progress):
            await self._restore(session, path, True, options, variables, renamed)

    async def _renamed(self, session: Session, path: Path, name_map: NameMap, options: RunOptions | None) -> list[str]:
        """Return the new name and the name of each tensor. Names of variables and tensors are compared as paths."""
        stored = await session.run(self._nodes.names, {self._nodes.feeds.path: as_name(path)}, options)
        found = renamed([name.decode() for name in stored], name_map)
        if not found:
            raise ValueError(f"name_map leaves out all {len(stored)} tensors of {as_name(path)!r}")
        own = {as_path(name): name for each in self._nodes.each.values() for name in each.names}
        return [text for new, name in found.items() for text in (own.get(new, new), name)]

    async def _restore(
        self, session: Session, path: Path, plain: bool, options: RunOptions | None,
        variables: Sequence[Variable | MutableTable | Tensor] | None, renamed: Sequence[str] = (),
    ) -> None:  # fmt: skip
        _check(session, options)
        if path is None:
            raise ValueError("save_path is None: perhaps latest_checkpoint has found no checkpoint")
        feeds = self._nodes.feeds
        givings = [self._nodes.every] if variables is None else self._givings(variables)
        chosen = list(dict.fromkeys(name for giving in givings for name in giving.names))
        read, given = [giving.read for giving in givings], [giving.given for giving in givings]
        fed = {feeds.path: as_name(path), feeds.plain: plain, feeds.renamed: renamed, feeds.chosen: chosen}
        handle = await session.partial_run_setup([*read, *given], [*fed, feeds.go], options)
        await session.partial_run(handle, read, fed)
        await session.partial_run(handle, given, {feeds.go: ""})

    def _givings(self, variables: Sequence[Variable | MutableTable | Tensor]) -> list[RestoreOps]:
        """Return the operations that restore these variables."""
        names = list(dict.fromkeys(variable_name(variable) for variable in variables))
        if not names:
            raise ValueError("variables is empty: leave it out to restore all")
        if strange := [name for name in names if name not in self._nodes.each]:
            raise ValueError(f"{', '.join(strange)}: not among the variables that this Saver saves")
        return [self._nodes.each[name] for name in names]

    async def latest_checkpoint(self, session: Session, directory: Path, damaged: Collection[str] = ()) -> str | None:
        """Return the path of the newest checkpoint in a directory, as the committing task sees it, or None.

        Ignores incomplete checkpoints, and those in `damaged`, such as one that `restore` has refused.
        """
        known = [os.fsencode(path) for path in damaged]
        feeds = {self._nodes.feeds.path: as_name(directory), self._nodes.feeds.damaged: known}
        return os.fsdecode(await session.run(self._nodes.latest, feeds)) or None

    # Known checkpoints

    def keep(self, retention: Retention) -> None:
        """Let these rules say from here on which checkpoints stay."""
        self._retention = retention

    @property
    def last_checkpoints(self) -> list[str]:
        """The paths of the checkpoints that were saved and may still be deleted, oldest first."""
        return [path for path, _ in self._retention.last]

    def set_last_checkpoints_with_time(self, last_checkpoints_with_time: Iterable[tuple[str, float]]) -> None:
        """Continue with the last checkpoints of an earlier process, given as (path, seconds since 1970)."""
        self._retention.recover(last_checkpoints_with_time)

    def find_last_checkpoints_with_time(self, last_checkpoints_with_time: Iterable[tuple[str, float]]) -> None:
        """Do the same with the checkpoints of a folder that have the name of the first one saved."""
        self._retention.find(last_checkpoints_with_time)

    def recover_last_checkpoints(self, checkpoint_paths: Iterable[str]) -> None:
        """Continue with the last checkpoints of an earlier process, oldest first: `max_to_keep` counts them, too."""
        self.set_last_checkpoints_with_time([(path, time.time()) for path in checkpoint_paths])

    set_last_checkpoints = recover_last_checkpoints

    def __repr__(self) -> str:
        return f"<af.train.Saver {self.mode}, {len(self.last_checkpoints)} checkpoints kept>"


def _check(session: Any, options: Any) -> None:
    if not isinstance(session, Session):
        raise TypeError(f"session must be an af.Session, not {session!r}")
    expect("options", options, RunOptions)
