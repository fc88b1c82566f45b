"""In which order the stages of a pipeline do what: decided before any graph is built."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias


class Turn(NamedTuple):
    """One unit of work of a stage: one micro-batch forward or backward."""

    forward: bool
    micro_batch: int

    def __str__(self) -> str:
        return f"{'F' if self.forward else 'B'}{self.micro_batch}"


Schedule: TypeAlias = list[list[Turn]]
"""For each stage its turns, in order."""


def gpipe(stages: int, micro_batches: int) -> Schedule:
    """All micro-batches forward, then all backward [Huang and others 2019, section 2.2].

    A stage keeps what all of them need for their way back.
    """
    turns = [Turn(forward, number) for forward in (True, False) for number in range(micro_batches)]
    return [list(turns) for _ in range(stages)]


def one_forward_one_backward(stages: int, micro_batches: int) -> Schedule:
    """Backward as soon as one can, and forward in between [Narayanan and others 2021, section 2.2].

    It takes as long as `gpipe`, but of `n` stages the first keeps what `n` micro-batches need for their way back, and
    each later one less, however many there are.
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
    """What each stage does at each time, by its number, if every turn takes one: a stage waits for its neighbours.

    A turn forward needs the same micro-batch's of the stage before; one backward that of the stage after.
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
    """All turns with their stages, each after those it needs."""
    return [each for now in chart(schedule) for each in now.items()]
