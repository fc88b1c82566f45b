"""Classifies operations by whether their effects outlive the step and cannot be undone when the step is repeated.

Before a step is repeated, the engine undoes updates of variables, resets random generators, and returns elements to
their queues. A resource held only during the step, such as a lock, has no lasting effect.
"""

from collections.abc import Iterable
from typing import Any, Final

from aioflow.graph.op import Op
from aioflow.tensors.dtypes import ListSpec, ResourceSpec, Spec

_OUTSIDE: Final = frozenset({"delete_session_tensor", "py_func", "write_file"})
"""Operations with effects that no handle among their inputs shows."""
_LOOKS: Final = ("_size", "_is_closed", "_peek", "_num_accumulated", "_serialize_state")
"""Suffixes of the names of operations that only read a resource."""
_OF_ITS_STEP: Final = ("stack_", "lossy_", "reader_num_", "cut_", "mark_")
"""Prefixes of the names of operations whose effects end with the step, or are undone if the step fails."""
_HANDED_OVER: Final = frozenset({
    "accumulator_take_gradient", "barrier_insert_many", "barrier_take_many", "iterator_get_next",
    "iterator_get_next_as_optional", "map_stage", "map_unstage", "map_unstage_no_key", "queue_dequeue",
    "queue_dequeue_many", "queue_dequeue_up_to", "queue_enqueue", "queue_enqueue_many", "queue_give_back",
    "reader_read", "reader_read_up_to", "sparse_accumulator_take_gradient",
    "stage", "unstage",
})  # fmt: skip
"""Operations that register the elements they take and put with the `Handover` of their step."""
_ONLY_PUT: Final = frozenset(
    {"barrier_insert_many", "map_stage", "queue_enqueue", "queue_enqueue_many", "queue_give_back", "stage"}
)
"""The operations among them that take no elements."""
STATES: Final = frozenset({"hash_table", "mutable_dense_hash_table", "mutable_hash_table", "variable"})
"""The ops that are handles to state whose changes are ordered within a step, and undone if it is repeated."""
_UNDONE: Final = frozenset({
    "initialize_table", "initialize_table_from_dataset", "initialize_table_from_text_file", "lookup_table_insert",
    "lookup_table_remove",
})  # fmt: skip
"""Operations whose changes the journal of an attempt undoes, on handles other than those of variables."""
_LOCKS: Final = frozenset({"acquire_variable_lock", "keep_variable_lock", "release_variable_lock"})


def has_lasting_effect(definition: Op[Any], inputs: Iterable[Spec]) -> bool:
    """Whether an operation with these inputs has an effect that outlives its step and cannot be undone."""
    name = definition.name
    if name in _OUTSIDE:
        return True
    if not definition.stateful or definition.observes or definition.handle or name in _LOCKS | _HANDED_OVER | _UNDONE:
        return False
    if name.endswith(_LOOKS) or name.startswith(_OF_ITS_STEP):
        return False
    if name.startswith("replica_") and not name.endswith("_turn"):  # a repeated gradient counts once
        return False
    return any(isinstance(spec, ResourceSpec) and type(spec) not in (ResourceSpec, ListSpec) for spec in inputs)


def takes_or_puts(definition: Op[Any]) -> bool:
    """Whether an operation takes or puts elements that its step can give back."""
    return definition.name in _HANDED_OVER


def takes_elements(definition: Op[Any]) -> bool:
    """Whether an operation takes elements that its step can give back."""
    return definition.name in _HANDED_OVER - _ONLY_PUT


def changes_variables(definition: Op[Any]) -> bool:
    """Whether an operation changes the variables and tables among its inputs."""
    return definition.stateful and not definition.observes and not definition.name.startswith(_OF_ITS_STEP)
