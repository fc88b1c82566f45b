"""Meta graphs of TensorFlow 1 in the default graph: their operations, collections, variables and Saver."""

import logging
from collections.abc import Iterator, Mapping
from typing import Any, Final

from aioflow import errors
from aioflow.files.filesystem import Path
from aioflow.graph.building import get_default_graph
from aioflow.graph.convert import convert_to_tensor
from aioflow.graph.graph_keys import GraphKeys
from aioflow.graph.operation import Operation, Tensor
from aioflow.library.variables import Variable
from aioflow.tensorflow_files import messages
from aioflow.tensorflow_files.build import Scope
from aioflow.tensorflow_files.importing import build_graph
from aioflow.tensorflow_files.meta_graphs import TensorFlowMetaGraph, read_meta_graph
from aioflow.tensorflow_files.reading import parsed, source_of
from aioflow.tensorflow_files.references import handle_of, value_of
from aioflow.train.saver import Saver

_log: Final = logging.getLogger("aioflow.saved_model")
_VARIABLES: Final = frozenset({
    GraphKeys.GLOBAL_VARIABLES, GraphKeys.LOCAL_VARIABLES, GraphKeys.MODEL_VARIABLES, GraphKeys.TRAINABLE_VARIABLES,
    GraphKeys.TRAINABLE_RESOURCE_VARIABLES, GraphKeys.METRIC_VARIABLES, GraphKeys.CONCATENATED_VARIABLES,
    GraphKeys.MOVING_AVERAGE_VARIABLES, GraphKeys.GLOBAL_STEP, GraphKeys.EVAL_STEP,
})  # fmt: skip
"""The collections whose bytes are descriptions of variables."""
_WITHOUT_ITEMS: Final = frozenset({GraphKeys.COND_CONTEXT, GraphKeys.WHILE_CONTEXT, GraphKeys.SAVERS})
"""Collections of objects of TensorFlow's, which aioflow has in the operations themselves."""


def import_tensorflow(path: Path, import_scope: str | None, input_map: Mapping[str, Any] | None) -> Saver | None:
    """Do for a file of TensorFlow what `import_meta_graph` does."""
    stored = read_meta_graph(path)
    graph = get_default_graph()
    with graph.transaction(), graph.name_scope(import_scope) as prefix:
        mapped = {_output(text, stored): convert_to_tensor(value) for text, value in (input_map or {}).items()}
        return _Import(stored, build_graph(graph, stored.graph, prefix, mapped=mapped), prefix).saver()


def _output(text: str, stored: TensorFlowMetaGraph) -> tuple[str, int]:
    source = source_of(text, "input_map")
    if source.node not in stored.graph.nodes:
        raise ValueError(f"input_map has {text!r}, which is not in {stored.where}")
    return source.node, source.place


class _Import:
    """A meta graph whose operations are built: adds its collections at once."""

    def __init__(self, stored: TensorFlowMetaGraph, scope: Scope, prefix: str) -> None:
        self._stored: Final = stored
        self._scope: Final = scope
        self._prefix: Final = prefix
        self._variables: Final[dict[str, Variable]] = {}
        for name, collection in stored.collections.items():
            for item in self._items(name, collection):
                get_default_graph().add_to_collection(name, item)

    def _items(self, name: str, collection: messages.Collection) -> Iterator[Any]:
        for text in collection.node_list.value:
            item = self._named(text.decode())
            if item is None:
                _log.warning("collection %r: %r is no operation or tensor of aioflow, and is left out", name, text)
            else:
                yield item
        yield from collection.int64_list.value
        yield from collection.float_list.value
        if name in _VARIABLES:
            yield from [self._variable(data) for data in collection.bytes_list.value]
        elif name not in _WITHOUT_ITEMS:
            yield from collection.bytes_list.value
        if collection.any_list.value:
            _log.warning("collection %r has messages of TensorFlow, which are left out", name)

    def _named(self, text: str) -> Tensor | Operation | None:
        """The tensor `node:place`, or the operation `node`; None if it was not built."""
        source = source_of(text, "a collection")
        if ":" not in text:
            return self._scope.done.get(source.node)
        outputs = self._scope.values.get(source.node, ())
        return value_of(outputs[source.place]) if source.place < len(outputs) else None

    # Variables

    def _variable(self, data: bytes) -> Variable:
        """The variable of a description: the same object in all collections."""
        found = parsed(messages.VariableDef, data, f"{self._stored.where}, a variable")
        name = source_of(found.variable_name, "a collection").node
        if name not in self._variables:
            self._variables[name] = self._made(found, name)
        return self._variables[name]

    def _made(self, found: messages.VariableDef, name: str) -> Variable:
        outputs = self._scope.values.get(name, ())
        initializer = self._scope.done.get(found.initializer_name)
        if not outputs or initializer is None:
            raise errors.DataLossError(
                f"{self._stored.where}: variable {name!r} or its initializer is not in the graph"
            )
        snapshot = self._named(found.snapshot_name)
        initial = self._named(found.initial_value_name) if found.initial_value_name else None
        parts: dict[str, Any] = {
            "variable_name": handle_of(outputs[0]).name,
            "initial_value_name": (initializer.inputs[1] if initial is None else initial).name,
            "initializer_name": initializer.name,
            "snapshot_name": self._text(snapshot, name),
            "trainable": found.trainable,
        }
        if found.HasField("save_slice_info_def"):
            whole = found.save_slice_info_def
            parts["part_of"] = {"name": whole.full_name, "shape": whole.full_shape, "begin": whole.var_offset}
        return Variable.from_proto(parts)

    def _text(self, snapshot: Tensor | Operation | None, name: str) -> str:
        if not isinstance(snapshot, Tensor):
            raise errors.DataLossError(f"{self._stored.where}: the graph lacks the value of variable {name!r}")
        return snapshot.name

    # Saver

    def saver(self) -> Saver | None:
        """Return its Saver, or one of its global variables; None if it has none."""
        every = get_default_graph().get_collection(GraphKeys.GLOBAL_VARIABLES)
        own = [each for each in every if each in self._variables.values()]
        options, saved = self._stored.saver, self._stored.saved
        if options is None:
            return Saver({each.op.name.removeprefix(self._prefix): each for each in own}) if own else None
        missing = [name for names in saved.values() for name in names if name not in self._variables]
        if missing or not saved:
            raise errors.DataLossError(f"{self._stored.where}: its Saver saves {missing[:3]}, which are no variables")
        parts = {name: [self._variables[each] for each in names] for name, names in saved.items()}
        return Saver(
            {name: each if len(each) > 1 else each[0] for name, each in parts.items()}, sharded=options.sharded,
            max_to_keep=options.max_to_keep,
            keep_checkpoint_every_n_hours=options.keep_checkpoint_every_n_hours or 10000.0,
        )  # fmt: skip
