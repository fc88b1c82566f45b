"""Which operations have effects that outlive their step and that nothing takes back when the step is repeated.

Updates of variables are taken back, random operations draw again what they drew, and elements go back to where they
were taken. What an operation holds only as long as its step lasts, as a lock, is no such effect either.
"""

from collections.abc import Iterable
from typing import Any, Final

from aioflow.dtypes import ListSpec, ResourceSpec, Spec
from aioflow.op import Op

_OUTSIDE: Final = frozenset({"py_func", "write_file"})
"""Operations with effects outside of all resources."""
_LOOKS: Final = ("_size", "_is_closed", "_peek", "_num_accumulated", "_serialize_state")
"""How the names of operations end that only look at a resource."""
_OF_ITS_STEP: Final = ("stack_", "lossy_", "reader_num_", "cut_", "mark_")
"""How the names of operations begin whose effects end with their step, or are taken back if it fails."""
_HANDED_OVER: Final = frozenset({
    "accumulator_take_gradient", "barrier_take_many", "map_stage", "map_unstage", "map_unstage_no_key",
    "queue_dequeue", "queue_dequeue_many", "queue_dequeue_up_to", "queue_enqueue", "queue_enqueue_many",
    "queue_give_back", "reader_read", "reader_read_up_to", "sparse_accumulator_take_gradient", "stage", "unstage",
})  # fmt: skip
"""Operations that register what they take and put with the `Handover` of their step."""
_ONLY_PUT: Final = frozenset({"map_stage", "queue_enqueue", "queue_enqueue_many", "queue_give_back", "stage"})
"""Those of them that take nothing."""
_LOCKS: Final = frozenset({"acquire_variable_lock", "keep_variable_lock", "release_variable_lock"})


def lasts(definition: Op[Any], inputs: Iterable[Spec]) -> bool:
    """Whether an operation with these inputs has an effect that outlives its step and cannot be taken back."""
    name = definition.name
    if name in _OUTSIDE:
        return True
    if not definition.stateful or definition.observes or definition.handle or name in _LOCKS | _HANDED_OVER:
        return False
    if name.endswith(_LOOKS) or name.startswith(_OF_ITS_STEP):
        return False
    if name.startswith("replica_") and not name.endswith("_turn"):  # a gradient that comes twice counts once
        return False
    return any(isinstance(spec, ResourceSpec) and type(spec) not in (ResourceSpec, ListSpec) for spec in inputs)


def hands_over(definition: Op[Any]) -> bool:
    """Whether an operation takes or puts something that its step can give back."""
    return definition.name in _HANDED_OVER


def takes(definition: Op[Any]) -> bool:
    """Whether an operation takes something that its step can give back."""
    return definition.name in _HANDED_OVER - _ONLY_PUT


def changes(definition: Op[Any]) -> bool:
    """Whether an operation changes the variables that it takes, if it takes some."""
    return definition.stateful and not definition.observes and not definition.name.startswith(_OF_ITS_STEP)


__all__ = ["changes", "hands_over", "lasts", "takes"]
