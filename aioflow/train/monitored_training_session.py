"""A monitored session for training, with the hooks that most trainings want."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from aioflow.files.filesystem import Path
from aioflow.graph.building import get_default_graph
from aioflow.graph.graph_keys import GraphKeys
from aioflow.graph.operation import items_of
from aioflow.session.default_config import AnyConfig
from aioflow.train.basic_session_run_hooks import CheckpointSaverHook
from aioflow.train.monitored_session import MonitoredSession
from aioflow.train.scaffold import Scaffold
from aioflow.train.session_creator import ChiefSessionCreator, WorkerSessionCreator
from aioflow.train.session_manager import LONGEST, Scope
from aioflow.train.session_run_hook import SessionRunHook
from aioflow.train.summary_hooks import StepCounterHook, SummarySaverHook

if TYPE_CHECKING:
    from aioflow.net.client.client import Address


class _DefaultInterval:
    """The default interval, unless the other one of two arguments is given."""

    def __repr__(self) -> str:
        return "as usual"


USUAL: Final = _DefaultInterval()
_SAVE_SECS: Final = 600.0
_SUMMARY_STEPS: Final = 100


def MonitoredTrainingSession(
    master: "str | Address" = "",
    is_chief: bool = True,
    checkpoint_dir: Path | None = None,
    scaffold: Scaffold | None = None,
    hooks: Sequence[SessionRunHook] | None = None,
    chief_only_hooks: Sequence[SessionRunHook] | None = None,
    save_checkpoint_secs: float | _DefaultInterval | None = USUAL,
    save_summaries_steps: int | _DefaultInterval | None = USUAL,
    save_summaries_secs: float | _DefaultInterval | None = USUAL,
    config: "AnyConfig | None" = None,
    stop_grace_period_secs: float = 120,
    log_step_count_steps: int | None = 100,
    max_wait_secs: float = LONGEST,
    save_checkpoint_steps: int | _DefaultInterval | None = USUAL,
    summary_dir: Path | None = None,
    restore: Scope = "all",
    examples_per_step: int | None = None,
) -> MonitoredSession:
    """Return a `MonitoredSession` for training. The chief initializes or restores and saves; workers wait for it.

    Args:
        master: the address of a cluster's master; empty for this process.
        is_chief: whether this is the only chief.
        checkpoint_dir: the directory of checkpoints; without one nothing is restored or saved.
        scaffold: the operations to use.
        hooks: hooks.
        chief_only_hooks: further hooks for the chief.
        save_checkpoint_secs: seconds between checkpoints; 600 if `save_checkpoint_steps` is not given either.
        save_summaries_steps: steps between summaries; 100 if `save_summaries_secs` is not given either.
        save_summaries_secs: seconds between summaries.
        config: configuration of the session.
        stop_grace_period_secs: seconds that tasks of hooks may take to stop at the end.
        log_step_count_steps: steps between lines with the steps per second; None for no lines.
        max_wait_secs: seconds that the session, or a recovery, may take to be ready.
        save_checkpoint_steps: steps between checkpoints.
        summary_dir: the folder of event files; `checkpoint_dir` by default. They are written if there are summaries.
        restore: the variables to restore after a loss; see `ChiefSessionCreator`.
        examples_per_step: number of examples in a step, to report how many were lost.

    Raises:
        ValueError: seconds and steps are both given for one interval.

    Examples:
        >>> step = af.train.create_global_step()
        >>> train = step.assign_add(1)
        >>> stop = af.train.StopAtStepHook(last_step=3)
        >>> async with af.train.MonitoredTrainingSession(hooks=[stop]) as monitored:
        ...     while not monitored.should_stop():
        ...         print(await monitored.run(train))
        1
        2
        3
    """
    scaffold = scaffold or Scaffold()
    if not is_chief:
        worker = WorkerSessionCreator(scaffold, master, config, max_wait_secs)
        return MonitoredSession(worker, hooks, stop_grace_period_secs, examples_per_step)
    folder = _summary_folder(scaffold, checkpoint_dir if summary_dir is None else summary_dir)
    chosen: list[SessionRunHook] = [
        *items_of("hooks", hooks or ()),
        *items_of("chief_only_hooks", chief_only_hooks or ()),
    ]
    if log_step_count_steps and (folder is not None or checkpoint_dir is not None):
        chosen.append(StepCounterHook(log_step_count_steps, output_dir=folder))
    summaries = _chosen("summaries", save_summaries_steps, save_summaries_secs, _SUMMARY_STEPS, None)
    checkpoints = _chosen("checkpoint", save_checkpoint_steps, save_checkpoint_secs, None, _SAVE_SECS)
    chosen += _savers(scaffold, folder, summaries, checkpoint_dir, checkpoints)
    creator = ChiefSessionCreator(
        scaffold, master, config, checkpoint_dir, max_wait_secs=max_wait_secs, restore=restore
    )
    return MonitoredSession(creator, chosen, stop_grace_period_secs, examples_per_step)


Every = tuple[int | None, float | None]
"""(steps, seconds) between two saves; (None, None) for never."""


def _summary_folder(scaffold: Scaffold, folder: Path | None) -> Path | None:
    """Return the folder, if there is anything to summarize."""
    summarized = scaffold.summary_op is not None or bool(get_default_graph().get_collection(GraphKeys.SUMMARIES))
    return folder if summarized else None


def _savers(
    scaffold: Scaffold, folder: Path | None, summaries: Every, checkpoint_dir: Path | None, checkpoints: Every
) -> list[SessionRunHook]:
    """Return the hooks that save summaries and checkpoints."""
    chosen: list[SessionRunHook] = []
    if folder is not None and any(summaries):
        chosen.append(SummarySaverHook(*summaries, folder, scaffold=scaffold))
    if checkpoint_dir is not None and any(checkpoints):
        steps, secs = checkpoints
        chosen.append(CheckpointSaverHook(checkpoint_dir, secs, steps, scaffold=scaffold))
    return chosen


def _chosen(
    what: str,
    steps: int | _DefaultInterval | None,
    secs: float | _DefaultInterval | None,
    usual_steps: int | None,
    usual_secs: float | None,
) -> Every:
    """Return the interval in steps or seconds. ValueError if both are given."""
    if isinstance(steps, _DefaultInterval) and isinstance(secs, _DefaultInterval):
        return usual_steps, usual_secs
    found = None if isinstance(steps, _DefaultInterval) else steps, None if isinstance(secs, _DefaultInterval) else secs
    if found[0] and found[1]:
        raise ValueError(f"give save_{what}_steps or save_{what}_secs, and None for the other")
    return found
