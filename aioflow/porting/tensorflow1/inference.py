"""What the expressions of a program stand for, as far as its assignments tell.

The kinds of names, attributes, parameters and results are gathered from the whole program again and again, until no
pass finds a new one. The order of statements plays no role; the first kind found for a name is kept.
"""

import ast
from collections.abc import Iterator
from typing import Final, TypeAlias

from aioflow.porting.tensorflow1.kinds import (
    VALUE,
    Foreign,
    Kind,
    Live,
    Method,
    OwnClass,
    OwnFunction,
    OwnObject,
    Several,
    TensorFlowName,
    block_of,
    customary,
    result_of,
)
from aioflow.porting.tensorflow1.script import SCOPES, FunctionNode, Scope, Script

_PASSES: Final = 20
_ROOTS: Final = ("tensorflow.compat.v1", "tensorflow._api.v2.compat.v1", "tensorflow")
_Place: TypeAlias = tuple[ast.AST, str]
"""A scope and a name in it, or a class and an attribute of its objects."""


def below_tensorflow(module: str) -> str | None:
    """Return the path of a module below `tf`; None for a module that is no part of TensorFlow."""
    for root in _ROOTS:
        if module == root or module.startswith(f"{root}."):
            return module[len(root) + 1 :]
    return None


class Inference:
    """The kinds of all expressions of a program.

    Args:
        script: the program.
    """

    def __init__(self, script: Script) -> None:
        self.script: Final = script
        self._nodes: Final = list(ast.walk(script.tree))
        self._bound: Final[dict[Scope, set[str]]] = {}
        self._global: Final[dict[Scope, set[str]]] = {}
        self._kinds: Final[dict[_Place, Kind]] = {}
        self._results: Final[dict[FunctionNode, Kind]] = {}
        self._bind_all()
        for _ in range(_PASSES):
            before = len(self._kinds), len(self._results)
            for node in self._nodes:
                self._learn(node)
            if before == (len(self._kinds), len(self._results)):
                break

    # Scopes

    def _bind_all(self) -> None:
        for node in self._nodes:
            scope = self.script.scope(node)
            if isinstance(node, (ast.Global, ast.Nonlocal)):
                self._global.setdefault(scope, set()).update(node.names)
            self._bound.setdefault(scope, set()).update(bound_names(node))
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
                self._bound.setdefault(node, set()).update(each.arg for each in parameters(node))

    def home(self, name: str, node: ast.AST) -> Scope | None:
        """Return the scope whose variable a name at a node is; None where the program binds no such name."""
        scope = self.script.scope(node)
        if name in self._global.get(scope, ()):
            outer = [each for each in self.script.above(scope) if isinstance(each, SCOPES)]
            return next((each for each in reversed(outer) if name in self._bound.get(each, ())), self.script.tree)
        scopes = [scope, *(each for each in self.script.above(scope) if isinstance(each, SCOPES))]
        visible = [each for each in scopes if each is scope or not isinstance(each, ast.ClassDef)]
        return next((each for each in visible if name in self._bound.get(each, ())), None)

    # What statements tell

    def _set(self, place: _Place, kind: Kind | None) -> None:
        if kind is not None:
            self._kinds.setdefault(place, kind)

    def _learn(self, node: ast.AST) -> None:
        match node:
            case ast.Import(names=names):
                for alias in names:
                    self._learn_import(node, alias)
            case ast.ImportFrom(module=str(module), names=names, level=0):
                for alias in names:
                    self._learn_member(node, module, alias)
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    self._assign(target, self.kind(value))
            case ast.AnnAssign(target=target, value=ast.expr() as value) | ast.NamedExpr(target=target, value=value):
                self._assign(target, self.kind(value))
            case ast.withitem(context_expr=value, optional_vars=ast.expr() as target):
                kind = self.kind(value)
                block = block_of(kind)
                self._assign(target, block.target if block else kind)
            case ast.For(target=target, iter=value) | ast.comprehension(target=target, iter=value):
                self._assign(target, self._element(self.kind(value)))
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self._learn_function(node)
            case ast.ClassDef(name=name):
                self._set((self.script.scope(node), name), OwnClass(node))
            case ast.Return(value=ast.expr() as value):
                self._learn_result(node, self.kind(value))
            case ast.Call():
                self._learn_arguments(node)

    def _learn_import(self, node: ast.AST, alias: ast.alias) -> None:
        path = below_tensorflow(alias.name)
        kind = Foreign() if path is None else TensorFlowName(path if alias.asname else "")
        self._set((self.script.scope(node), alias.asname or alias.name.partition(".")[0]), kind)

    def _learn_member(self, node: ast.AST, module: str, alias: ast.alias) -> None:
        path = below_tensorflow(f"{module}.{alias.name}")
        kind = Foreign() if path is None else TensorFlowName(path)
        self._set((self.script.scope(node), alias.asname or alias.name), kind)

    def _learn_function(self, node: FunctionNode) -> None:
        scope = self.script.scope(node)
        self._set((scope, node.name), OwnFunction(node))
        is_static = any(isinstance(each, ast.Name) and each.id == "staticmethod" for each in node.decorator_list)
        if isinstance(scope, ast.ClassDef) and node.args.args and not is_static:
            self._set((node, node.args.args[0].arg), OwnObject(scope))

    def _learn_result(self, node: ast.Return, kind: Kind | None) -> None:
        scope = self.script.scope(node)
        if kind is not None and isinstance(scope, (ast.FunctionDef, ast.AsyncFunctionDef)):
            self._results.setdefault(scope, kind)

    def _learn_arguments(self, call: ast.Call) -> None:
        node = self.function_of(call)
        if node is None:
            return
        names = [each.arg for each in (*node.args.posonlyargs, *node.args.args)]
        if isinstance(self.script.scope(node), ast.ClassDef):
            names = names[1:]
        for name, value in zip(names, call.args, strict=False):
            self._set((node, name), self.kind(value))
        for keyword in call.keywords:
            if keyword.arg is not None:
                self._set((node, keyword.arg), self.kind(keyword.value))

    def _assign(self, target: ast.expr, kind: Kind | None) -> None:
        match target:
            case ast.Name(id=name):
                home = self.home(name, target)
                if home is not None:
                    self._set((home, name), kind)
            case ast.Attribute(value=owner, attr=name):
                found = self.kind(owner)
                if isinstance(found, OwnObject):
                    self._set((found.node, name), kind)
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                kinds = kind.items if isinstance(kind, Several) and len(kind.items) == len(parts) else None
                for number, part in enumerate(parts):
                    self._assign(part, kinds[number] if kinds else self._element(kind))

    @staticmethod
    def _element(kind: Kind | None) -> Kind | None:
        match kind:
            case Several(items) if items:
                return items[0]
        return VALUE if kind is VALUE else None

    # Expressions

    def kind(self, node: ast.expr) -> Kind | None:
        """Return what an expression stands for; None where the program does not tell."""
        match node:
            case ast.Name(id=name):
                home = self.home(name, node)
                return None if home is None else self._kinds.get((home, name))
            case ast.Attribute(value=owner, attr=name):
                return self._attribute(node, self.kind(owner), name)
            case ast.Call():
                return self._result(node)
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                return Several(tuple(self.kind(part) for part in parts))
            case ast.ListComp(elt=part):
                return Several((self.kind(part),))
            case ast.Subscript(value=value):
                return self._element(self.kind(value))
            case ast.BinOp(left=left, right=right) if VALUE in (self.kind(left), self.kind(right)):
                return VALUE
            case ast.IfExp(body=one, orelse=other):
                return self.kind(one) or self.kind(other)
            case ast.Await(value=value):
                return self.kind(value)
        return None

    def _attribute(self, node: ast.Attribute, owner: Kind | None, name: str) -> Kind | None:
        match owner:
            case TensorFlowName(path) if path.endswith("flags.FLAGS"):
                return None
            case TensorFlowName(path):
                below = below_tensorflow(f"tensorflow.{path}.{name}" if path else f"tensorflow.{name}")
                return TensorFlowName("" if below is None else below)
            case OwnObject(cls) | OwnClass(cls):
                return self._member(cls, name)
            case Live() if owner is VALUE and not Method(owner, name).is_awaited and not _is_called(self.script, node):
                return VALUE
            case Live():
                return Method(owner, name)
            case Method():  # such as `session.graph`
                return self._attribute(node, VALUE, name)
            case Foreign():
                return owner
            case None:
                return self._customary(node, name)
        return None

    def _customary(self, node: ast.Attribute, name: str) -> Kind | None:
        """What a method of an unknown object is, by the names of the object and the method."""
        call = self.script.parents[node]
        if not isinstance(call, ast.Call) or call.func is not node:
            return None
        owner = node.value
        own = owner.id if isinstance(owner, ast.Name) else owner.attr if isinstance(owner, ast.Attribute) else ""
        usual = customary(own)
        if usual is not None and Method(usual, name).is_awaited:
            return Method(usual, name)
        given = {keyword.arg for keyword in call.keywords}
        if name == "eval" or (name == "run" and given & {"feed_dict", "session"}):
            return Method(VALUE, name)
        return None

    def _member(self, cls: ast.ClassDef, name: str) -> Kind | None:
        found = self._kinds.get((cls, name))
        for base in [] if found is not None else cls.bases:
            kind = self.kind(base)
            if isinstance(kind, OwnClass) and kind.node is not cls:
                found = found or self._member(kind.node, name)
        return found

    def _result(self, call: ast.Call) -> Kind | None:
        called = self.kind(call.func)
        if isinstance(called, OwnFunction):
            return self._results.get(called.node)
        return result_of(called)

    def function_of(self, call: ast.Call) -> FunctionNode | None:
        """Return the function of the program that a call enters, the constructor of a class included."""
        match self.kind(call.func):
            case OwnFunction(node):
                return node
            case OwnClass(cls):
                found = self._member(cls, "__init__")
                return found.node if isinstance(found, OwnFunction) else None
            case OwnObject(cls):
                found = self._member(cls, "__call__")
                return found.node if isinstance(found, OwnFunction) else None
        return None


def _is_called(script: Script, node: ast.expr) -> bool:
    parent = script.parents[node]
    return isinstance(parent, ast.Call) and parent.func is node


def parameters(node: FunctionNode | ast.Lambda) -> Iterator[ast.arg]:
    """Yield all parameters of a function."""
    yield from (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
    yield from (each for each in (node.args.vararg, node.args.kwarg) if each is not None)


def bound_names(node: ast.AST) -> Iterator[str]:
    """Yield the names that a single node binds in its scope."""
    match node:
        case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
            yield name
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.ExceptHandler(name=str(name)):
            yield name
        case ast.alias(name=name, asname=known):
            yield known or name.partition(".")[0]
