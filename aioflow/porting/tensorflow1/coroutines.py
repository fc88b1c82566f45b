"""Finds the calls to await, the blocks and loops to enter with `async`, and the functions that become coroutines.

A function that awaits becomes a coroutine function, and so its callers await it; this is repeated until no call is
left. Where a function cannot become one, its calls stay as they are, and the place needs a person.
"""

import ast
from collections.abc import Iterator
from typing import Final, TypeAlias, TypeGuard

from aioflow.porting.tensorflow1.inference import Inference
from aioflow.porting.tensorflow1.kinds import (
    AsyncBlock,
    CoroutineFunction,
    Foreign,
    Method,
    OwnClass,
    OwnFunction,
    TensorFlowName,
    block_of,
)
from aioflow.porting.tensorflow1.script import FunctionNode

Waiting: TypeAlias = ast.Call | ast.With | ast.For | ast.comprehension | ast.Assign
_ENTERED: Final = frozenset({"InteractiveSession", "train.Server"})
"""Objects that work from the moment they are made; aioflow's are entered by `async with`."""
_AWAITED: Final = ("graph_util.convert_variables_to_constants", "train.basic_train_loop", "train.global_step")
"""Functions of aioflow's that are awaited."""
_COMMON: Final = frozenset(dir(list)) | frozenset(dir(dict)) | frozenset(dir(str)) | frozenset(dir(set))
"""Methods of Python's own types, which a method of an unknown object may be."""
_HARMLESS: Final = frozenset({"staticmethod", "classmethod"})


class Coroutines:
    """The calls, blocks, loops and functions of a program that wait.

    Attributes:
        functions: the functions that become coroutine functions.
        starters: the constructors among them, which become methods that are awaited.
        waiting: the calls, blocks and loops that wait, in the order they were found.
        remarks: the places that need a person, and why.

    Args:
        inference: the kinds of the program's expressions.
    """

    def __init__(self, inference: Inference) -> None:
        self._inference: Final = inference
        self._script: Final = inference.script
        self._nodes: Final = list(ast.walk(self._script.tree))
        self._definitions: Final = [each for each in self._nodes if isinstance(each, ast.FunctionDef)]
        self.functions: Final[set[FunctionNode]] = set()
        self.starters: Final[set[FunctionNode]] = set()
        self.waiting: Final[dict[Waiting, None]] = {}
        self.remarks: Final[dict[ast.AST, str]] = {}
        while self._step():
            pass
        self._remark_references()

    def _step(self) -> bool:
        """Find what waits, with the functions known by now; whether anything new was found."""
        before = len(self.waiting), len(self.functions), len(self.remarks)
        for node in self._nodes:
            if isinstance(node, Waiting) and node not in self.waiting and self._waits(node):
                self._admit(node)
        return before != (len(self.waiting), len(self.functions), len(self.remarks))

    # Whether a node waits

    def _waits(self, node: Waiting) -> bool:
        match node:
            case ast.Call():
                return not isinstance(self._script.parents[node], ast.Await) and self._is_awaited(node)
            case ast.With():
                return any(self.enters(item) for item in node.items)
            case ast.For(iter=value) | ast.comprehension(iter=value, is_async=0):
                return isinstance(value, ast.Call) and self._is_async_generator(self.callee(value))
            case ast.Assign(value=ast.Call(func=made)):
                kind = self._inference.kind(made)
                return isinstance(kind, TensorFlowName) and kind.path in _ENTERED
        return False

    def enters(self, item: ast.withitem) -> AsyncBlock | None:
        """Return how `async with` enters an item of a block; None for one that `with` enters."""
        return block_of(self._inference.kind(item.context_expr))

    def _is_awaited(self, call: ast.Call) -> bool:
        kind = self._inference.kind(call.func)
        if isinstance(kind, (Method, CoroutineFunction)):
            return isinstance(kind, CoroutineFunction) or kind.is_awaited
        if isinstance(kind, TensorFlowName):
            return kind.path in _AWAITED
        callee = self.callee(call)
        return callee in self.functions and not self._is_async_generator(callee)

    def callee(self, call: ast.Call) -> FunctionNode | None:
        """Return the function of the program that a call enters, by its kind, or else by the name of a method."""
        known = self._inference.function_of(call)
        if known is not None or not isinstance(call.func, ast.Attribute) or call.func.attr in _COMMON:
            return known
        if self._inference.kind(call.func) is not None or isinstance(self._inference.kind(call.func.value), Foreign):
            return None
        name = call.func.attr
        found = [each for each in self._definitions if each.name == name and self._is_method(each)]
        return found[0] if found and all(each in self.functions for each in found) else None

    def _is_method(self, node: FunctionNode) -> bool:
        return isinstance(self._script.scope(node), ast.ClassDef)

    def _is_async_generator(self, node: FunctionNode | None) -> bool:
        return node in self.functions and node is not None and any(self._yields(node))

    def _yields(self, node: FunctionNode) -> Iterator[ast.AST]:
        kinds = (ast.Yield, ast.YieldFrom)
        return (each for each in ast.walk(node) if isinstance(each, kinds) and self._script.scope(each) is node)

    # What follows from it

    def _admit(self, node: Waiting) -> None:
        """Let a node wait, if the function around it can."""
        scope = self._script.scope(node)
        if isinstance(node, ast.Call) and not self._script.is_placed(node):
            self.remarks[node] = "await this call in a statement of its own, before the f-string"
        elif isinstance(scope, ast.Lambda):
            self.remarks[node] = "a lambda cannot await: make it an `async def`"
        elif isinstance(scope, ast.ClassDef):
            self.remarks[node] = "the body of a class cannot await: move this into a coroutine function"
        elif isinstance(node, ast.Assign) and not self._opens_block(node):
            self.remarks[node] = "enter this by `async with`, around all that uses it"
        elif isinstance(scope, ast.FunctionDef) and scope not in self.functions:
            self._make_coroutine(scope, node)
        else:
            self.waiting[node] = None

    def _opens_block(self, node: ast.Assign) -> bool:
        """Whether the statements behind an assignment of a name are all that can use it."""
        parent = self._script.parents[node]
        if not isinstance(parent, (ast.Module, ast.FunctionDef, ast.AsyncFunctionDef)) and not is_guard(parent):
            return False
        rest = parent.body[parent.body.index(node) + 1 :]
        named = isinstance(node.targets[0], ast.Name) and len(node.targets) == 1
        return named and bool(rest) and rest[0].lineno > (node.end_lineno or 0)

    def _make_coroutine(self, function: ast.FunctionDef, cause: Waiting) -> None:
        obstacle = self._obstacle(function)
        if obstacle:
            self.remarks[cause] = obstacle
            return
        if function.name == "__init__":
            self.starters.add(function)
        self.functions.add(function)
        self.waiting[cause] = None

    def _obstacle(self, function: ast.FunctionDef) -> str | None:
        """Why a function cannot become a coroutine function; None where it can."""
        decorators = {ast.unparse(each) for each in function.decorator_list} - _HARMLESS
        if decorators:
            return f"this waits: see that @{decorators.pop()} takes a coroutine function, and make {function.name} one"
        if any(isinstance(each, ast.YieldFrom) for each in self._yields(function)):
            return "an async generator has no `yield from`: yield in an `async for`"
        if function.name == "__init__":
            return self._obstacle_to_start(function)
        if function.name.startswith("__") and function.name != "__call__" and self._is_method(function):
            return f"{function.name} cannot await: move this into a coroutine method"
        return None

    def _obstacle_to_start(self, function: ast.FunctionDef) -> str | None:
        cls = self._script.scope(function)
        assert isinstance(cls, ast.ClassDef)
        plain = all(isinstance(base, ast.Name) and base.id == "object" for base in cls.bases)
        derived = any(
            isinstance(kind := self._inference.kind(base), OwnClass) and kind.node is cls
            for each in self._nodes
            if isinstance(each, ast.ClassDef)
            for base in each.bases
        )
        one_line = function.body[0].lineno == function.lineno
        if plain and not derived and not one_line:
            return None
        return "a constructor cannot await: move this into a coroutine method that the program awaits afterwards"

    def _remark_references(self) -> None:
        """Remark on coroutine functions that are handed on instead of called."""
        for node in self._nodes:
            parent = self._script.parents.get(node)
            if not isinstance(node, (ast.Name, ast.Attribute)) or not isinstance(node.ctx, ast.Load):
                continue
            call = self._script.parents[parent] if isinstance(parent, ast.keyword) else parent
            if isinstance(call, ast.Call) and (call.func is node or starts_program(self._inference, call)):
                continue
            kind = self._inference.kind(node)
            if isinstance(kind, OwnFunction) and kind.node in self.functions:
                name = kind.node.name
                self.remarks[node] = (
                    f"{name} is a coroutine function now: the code that calls it awaits it, or runs it as a task"
                )


def is_guard(node: ast.AST) -> TypeGuard[ast.If]:
    """Whether a statement is `if __name__ == "__main__":`."""
    return isinstance(node, ast.If) and "__name__" in ast.unparse(node.test) and not node.orelse


def starts_program(inference: Inference, call: ast.Call) -> bool:
    """Whether a call is TensorFlow's `app.run`, or that of absl."""
    return inference.kind(call.func) == TensorFlowName("app.run") or ast.unparse(call.func) in (
        "app.run",
        "absl.app.run",
    )
