"""How branches and loops are written: `cond` as `If`, `while_loop` as `Loop`."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from aioflow.graph.convert import constant_value
from aioflow.graph.operation import Operation, Tensor
from aioflow.graph.subgraph import Body
from aioflow.onnx.exporters.lists import Growing, Rows, uncast
from aioflow.onnx.exporting import Export, computed, declaration, exporter
from aioflow.onnx.protobuf import package
from aioflow.tensors.dtypes import SCALAR, ListSpec, Spec, bool_, int64

_INDEX, _FLAG = Spec(int64, SCALAR), Spec(bool_, SCALAR)
_BRANCHES = (("then", "then"), ("else", "otherwise"))


@exporter("cond")
def _(export: Export, op: Operation) -> list[str]:
    bodies = {f"{name}_branch": _branch(export, op, op.attrs[key]) for name, key in _BRANCHES}
    return export.add_all("If", [export.name(op.inputs[0])], len(op.outputs), **bodies)


def _branch(export: Export, op: Operation, body: Body) -> Any:
    with export.body() as nodes:
        _bind(export, body, op.inputs)
        export.write(body.outputs, body.arguments)
        results = _results(export, [export.name(output) for output in body.outputs])
    return _graph(nodes, [], zip(results, [output.spec for output in body.outputs], strict=True))


def _bind(export: Export, body: Body, values: Sequence[Tensor | str]) -> None:
    """Let the arguments of a body stand for the inputs of its operation."""
    for argument, place in zip(body.arguments, body.takes, strict=True):
        export.bind(argument, values[place])


def _results(export: Export, names: Sequence[str]) -> list[str]:
    """New names of these values: the outputs of a graph are made in it, each for itself."""
    return [export.add("Identity", name) for name in names]


def _graph(nodes: Sequence[Any], inputs: Any, outputs: Any) -> Any:
    declared = [[declaration(name, spec) for name, spec in each] for each in (inputs, outputs)]
    return package().helper.make_graph(nodes, "body", *declared)


@exporter("while_loop")
def _(export: Export, op: Operation) -> list[str]:
    if op.attrs["replays"]:
        raise ValueError("it is a loop of a gradient")
    return _Loop(export, op).write()


class _Loop:
    """One loop: its variables are tensors, which `Loop` carries, or lists, whose new elements it stacks."""

    def __init__(self, export: Export, op: Operation) -> None:
        self._export, self._op = export, op
        self._limited, count = int(op.attrs["limited"]), op.attrs["variables"]
        self._first = op.inputs[self._limited : self._limited + count]
        self._body, self._condition = op.attrs["body"], op.attrs["condition"]
        self._next = computed(op, self._body)
        self._carried = [index for index, tensor in enumerate(self._first) if tensor not in export.lists]

    def write(self) -> list[str]:
        """Add the node; the names of the last values of the variables."""
        export, op = self._export, self._op
        limit = export.as_int64(op.inputs[0]) if self._limited else ""
        going = self._goes_on(op.inputs)
        body, grown = self._written()
        first = [export.name(self._first[index]) for index in self._carried]
        made = export.add_all("Loop", [limit, going, *first], len(first) + len(grown), body=body)
        for (index, written), rows in zip(grown.items(), made[len(first) :], strict=True):
            export.lists[op.outputs[index]] = written.before.with_rows(export, rows, None, written.backwards)
        last = dict(zip(self._carried, made, strict=False))
        return [last.get(index, "") for index in range(len(self._first))]

    def _goes_on(self, values: Sequence[Tensor]) -> str:
        """The condition for these values in place of the operation's inputs."""
        export, condition = self._export, self._condition
        if condition is None:
            return export.initial(np.True_)
        _bind(export, condition, values)
        export.write(condition.outputs, condition.arguments)
        return export.name(condition.outputs[0])

    def _written(self) -> tuple[Any, dict[int, Growing]]:
        """The body, and the lists that it writes, by the variable."""
        export, op = self._export, self._op
        with export.body() as nodes:
            inputs = [(export.unique("iteration"), _INDEX), (export.unique("going"), _FLAG), *self._bound()]
            export.write(self._next, self._body.arguments)
            end = self._limited + len(self._first)
            going = self._goes_on([*op.inputs[: self._limited], *self._next, *op.inputs[end:]])
            grown = {index: export.lists[self._next[index]] for index in self._lists() if self._grows(index)}
            names = [going, *[export.name(self._next[i]) for i in self._carried], *[g.added for g in grown.values()]]
            results = _results(export, names)
        specs = [self._next[index].spec for index in self._carried]
        specs += [ListSpec.check(self._next[index].spec).element for index in grown]
        graph = _graph(nodes, inputs, zip(results, [_FLAG, *specs], strict=True))
        return graph, grown

    def _lists(self) -> list[int]:
        return [index for index in range(len(self._first)) if index not in self._carried]

    def _bound(self) -> list[tuple[str, Spec]]:
        """Bind the arguments of the body; the names and Specs of those that are carried."""
        export, carried = self._export, {}
        for argument, place in zip(self._body.arguments, self._body.takes, strict=True):
            index = place - self._limited
            if not 0 <= index < len(self._first):
                export.bind(argument, self._op.inputs[place])
            elif index in self._carried:
                carried[index] = (export.unique(argument.op.name), argument.spec)
                export.bind(argument, carried[index][0])
            else:
                before = export.lists[self._first[index]]
                if not isinstance(before, Rows):
                    raise ValueError("an inner loop writes a list of the loop around it")
                export.lists[argument] = Growing(before)
        return [carried[index] for index in self._carried]

    def _grows(self, index: int) -> bool:
        """Whether the body writes the list, at its end. ValueError if it does so elsewhere."""
        found = self._export.lists[self._next[index]]
        if isinstance(found, Growing) and found.before is not self._export.lists[self._first[index]]:
            raise ValueError("a list of a loop becomes another one of its variables")
        if isinstance(found, Growing) and found.added is None:
            self._export.lists[self._op.outputs[index]] = found.before
            return False
        if not isinstance(found, Growing) or not self._counts(found):
            raise ValueError("an iteration writes the slot of a list that follows the slots written before")
        return True

    def _counts(self, found: Growing) -> bool:
        """Whether the index of the written slot begins after the slots written before, and goes on by 1."""
        place = uncast(found.turn) if isinstance(found.turn, Tensor) else None
        taken = None if place is None else self._body.input_of(place)
        index = -1 if taken is None else taken - self._limited
        if not 0 <= index < len(self._first) or constant_value(self._first[index]) != found.before.count:
            return False
        made = self._next[index].op
        return made.type == "add" and place in made.inputs and any(constant_value(x) == 1 for x in made.inputs)
