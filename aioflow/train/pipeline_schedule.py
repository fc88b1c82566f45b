"""Schedules of pipelines: the order of work of each stage, decided before any graph is built."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias


class Turn(NamedTuple):
    """One unit of work of a stage: one micro-batch forward or backward."""

    forward: bool
    micro_batch: int

    def __str__(self) -> str:
        return f"{'F' if self.forward else 'B'}{self.micro_batch}"


Schedule: TypeAlias = list[list[Turn]]
"""For each stage its work in order."""


def gpipe(stages: int, micro_batches: int) -> Schedule:
    """Run all micro-batches forward, then all backward [Huang and others 2019, section 2.2].

    Each stage keeps the activations of all micro-batches for the backward pass.
    """
    turns = [Turn(forward, number) for forward in (True, False) for number in range(micro_batches)]
    return [list(turns) for _ in range(stages)]


def one_forward_one_backward(stages: int, micro_batches: int) -> Schedule:
    """Run each micro-batch backward as soon as possible, and others forward in between [Narayanan 2021, section 2.2].

    It takes as long as `gpipe`, but the first of `n` stages keeps the activations of only `n` micro-batches, and each
    later stage fewer, however many micro-batches there are.
    """
    found = []
    for stage in range(stages):
        ahead = min(stages - stage - 1, micro_batches)
        turns = [Turn(True, number) for number in range(ahead)]
        for number in range(micro_batches):
            turns += [Turn(True, number + ahead)] if number + ahead < micro_batches else []
            turns.append(Turn(False, number))
        found.append(turns)
    return found


SCHEDULES: Final[Mapping[str, Callable[[int, int], Schedule]]] = {"1f1b": one_forward_one_backward, "gpipe": gpipe}


def chart(schedule: Schedule) -> list[dict[int, Turn]]:
    """Return the work of each stage at each time, if every unit takes one time unit: stages wait for their neighbours.

    Forward work needs the same micro-batch from the stage before; backward work needs it from the stage after.
    """
    left = [list(turns) for turns in schedule]
    done: set[tuple[int, Turn]] = set()
    times = []
    while any(left):
        now = {
            stage: turns[0] for stage, turns in enumerate(left) if turns and _is_ready(stage, turns[0], done, len(left))
        }
        if not now:
            raise ValueError(f"the stages wait for each other, before {[str(turns[0]) for turns in left if turns]}")
        for stage in now:
            left[stage].pop(0)
        done.update(now.items())
        times.append(now)
    return times


def _is_ready(stage: int, turn: Turn, done: set[tuple[int, Turn]], stages: int) -> bool:
    if turn.forward:
        return stage == 0 or (stage - 1, turn) in done
    return (stage, Turn(True, turn.micro_batch)) in done and (stage == stages - 1 or (stage + 1, turn) in done)


def in_order(schedule: Schedule) -> Sequence[tuple[int, Turn]]:
    """Return all work with its stages, each unit after those it needs."""
    return [each for now in chart(schedule) for each in now.items()]
