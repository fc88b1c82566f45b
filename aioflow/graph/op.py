"""Declares ops, each in one place: shape rule, docstring, gradient or the reason for none, kernels, cost.

An op is declared from its shape rule, an ordinary function on Specs whose parameters are the op's own:

    @op
    def matmul(a: T, b: T, transpose_a: bool = False) -> Spec: ...

A parameter annotated as a Spec (or a sequence of Specs) is data, every other an attribute. A call `matmul(x, w)` adds
a node to the default graph. `@matmul.gradient`, `@matmul.kernel(CPU, GPU)`, `@matmul.cost` follow in the same file.
"""

import dataclasses
import inspect
import typing
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, Final, Generic, Protocol, Self, TypeVar, overload

from aioflow.graph.arguments import converted, graph_of
from aioflow.graph.building import add_user_line, with_text
from aioflow.graph.composed import Composed, composed_in, key_of
from aioflow.graph.empty_lists import with_empty_lists
from aioflow.graph.gpu_dtypes import gpu_computes
from aioflow.graph.graph import Graph
from aioflow.graph.kernel import Kernel
from aioflow.graph.operation import Attrs, Operation, Tensor, user_line
from aioflow.graph.params import OLD_NAMES, Prefer, attribute_of, names_of, params_of, renamed, signature_of
from aioflow.graph.params import Indices as Indices
from aioflow.graph.params import Ints as Ints
from aioflow.graph.params import T as T
from aioflow.lazy import Registry
from aioflow.tensors.dtypes import DeviceKind, DType, Spec

R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., Any])


@dataclasses.dataclass(frozen=True, slots=True)
class Flags:
    """Properties of every node of an op; see `op`."""

    stateful: bool = False
    observes: bool = False
    counted: bool = False
    waits: bool = False
    commutative: bool = False
    elementwise: bool = False
    handle: bool = False


class Op(Generic[R]):
    """One op. A call adds a node to the graph and returns its output, a tuple of outputs, or the operation."""

    kernel_changes: ClassVar[int] = 0
    """The number of changes to kernels of any op: a program made before the last one may have other kernels."""

    def __init__(self, rule: Callable[..., Any], name: str, flags: Flags) -> None:
        self.rule = rule
        self.name = name
        self.stateful: Final = flags.stateful or flags.waits or flags.observes or flags.counted
        self.waits: Final = flags.waits
        self.observes: Final = flags.observes
        self.counted: Final = flags.counted
        self.commutative: Final = flags.commutative
        self.elementwise: Final = flags.elementwise
        self.handle: Final = flags.handle
        self.__doc__ = rule.__doc__
        self.__name__ = self.__qualname__ = name
        self.__module__ = rule.__module__
        self.params: Final = params_of(rule)
        self.kernels: Final[dict[DeviceKind, list[Kernel]]] = {}
        self.gradient_rule: Callable[..., Any] | None = None
        self.gradient_reason: str | None = None
        self.gradient_takes_none = False
        """Whether the gradient receives None, instead of zeros, for outputs without a gradient."""
        self.cost_rule: Callable[..., float] | None = None
        self.check_rule: Callable[..., None] | None = None
        self.bytes_rule: Callable[..., int] | None = None
        self._dynamic_rule: Callable[..., R] | None = None
        self._dynamic: frozenset[str] = frozenset()
        self.moves = False
        """Whether kernels only move elements, so that they can move positions instead of strings."""
        self.updates = False
        """Whether the result is the first input with some elements changed. A kernel that gets the first input as `out`
        changes these elements only."""
        self._host_params = {p.name for p in self.params if isinstance(p.marker, Prefer) and p.marker.sizes}
        self._host_outputs: bool | frozenset[int] = frozenset()
        self._names = names_of(rule)
        self._name_at = self._names.index("name") if "name" in self._names else None
        defaults = inspect.unwrap(rule).__defaults__ or ()
        self._defaults = dict(zip(self._names[len(self._names) - len(defaults) :], defaults, strict=True))
        self._lists = sum(param.role == "list" for param in self.params)
        self._singles = sum(param.role == "tensor" for param in self.params)
        self._list_is_last = [param.role for param in self.params if param.role != "attr"][-1:] == ["list"]

    # Declaring

    def gradient(self, rule: F) -> F:
        """Declare the gradient: (operation, one gradient per output) -> one gradient or None per input."""
        self.gradient_rule = rule
        return rule

    def no_gradient(self, reason: str) -> None:
        """Declare that the op has no gradient, and why; gradients stop here."""
        self.gradient_reason = reason

    def check(self, rule: Callable[..., None]) -> Callable[..., None]:
        """Declare a check of constant inputs, called when a node is built, after the shape rule.

        The rule takes the op's parameters, constant data as arrays, other data as Specs. It raises ValueError to
        refuse.
        """
        self.check_rule = rule
        return rule

    def of(self, kind: type[Composed]) -> Callable[[F], F]:
        """Declare how the op is composed of others where an argument is of that class, as a SparseTensor.

        The rule takes the op's parameters by position, as given.
        """

        def declare(rule: F) -> F:
            kind.rules[key_of(self)] = rule
            return rule

        return declare

    def dynamic(self, *params: str) -> Callable[[Callable[..., R]], Callable[..., R]]:
        """Declare how the op is composed of others where one of these attributes is a tensor that only a run knows.

        The rule takes the op's parameters by position: data as tensors, and these attributes as given.
        """

        def declare(rule: Callable[..., R]) -> Callable[..., R]:
            self._dynamic_rule, self._dynamic = rule, frozenset(params)
            return rule

        return declare

    def cost(self, rule: Callable[..., float]) -> Callable[..., float]:
        """Declare the number of arithmetic operations: (input specs, output specs, attributes) -> count."""
        self.cost_rule = rule
        return rule

    def makes(self, rule: Callable[..., int]) -> Callable[..., int]:
        """Declare the bytes of results whose shape the shape rule leaves open: (inputs, attributes) -> bytes."""
        self.bytes_rule = lambda inputs, attrs, specs: rule(inputs, attrs)
        return rule

    def on_host(self, *params: str, outputs: bool | Iterable[int] = ()) -> None:
        """Declare the inputs, besides `Ints`, and the outputs that GPU kernels keep in host memory.

        Args:
            params: the names of these parameters.
            outputs: the indices of these outputs; True for all.
        """
        self._host_params.update(params)
        self._host_outputs = outputs if isinstance(outputs, bool) else frozenset(outputs)

    def host_inputs(self, count: int) -> tuple[bool, ...]:
        """Return, for each of `count` flat inputs, whether GPU kernels read it from host memory."""
        length = (count - self._singles) // self._lists if self._lists else 0
        lengths = {"tensor": 1, "list": length, "attr": 0}
        return tuple([p.name in self._host_params for p in self.params for _ in range(lengths[p.role])])

    def host_outputs(self, count: int) -> tuple[bool, ...]:
        """Return, for each of `count` outputs, whether GPU kernels make it in host memory."""
        made = self._host_outputs
        return tuple([made if isinstance(made, bool) else place in made for place in range(count)])

    def kernel(
        self,
        *kinds: DeviceKind,
        out: bool = False,
        fresh: bool = False,
        binds: bool = False,
        only: Iterable[DType] | None = None,
        priority: int = 0,
        when: Callable[[], bool] | None = None,
        scalar: str | None = None,
        fast: bool = False,
    ) -> Callable[[F], F]:
        """Declare a kernel for these kinds of device; `Kernel` describes the flags."""

        def declare(function: F) -> F:
            types = None if only is None else frozenset(only)
            for kind in kinds:
                made = Kernel(function, kind, out, fresh or out, binds, types, priority, when, scalar, fast)
                self.kernels.setdefault(kind, []).append(made)
                self.kernels[kind].sort(key=lambda kernel: -kernel.priority)
            Op.kernel_changes += 1
            return function

        return declare

    def kernel_for(
        self, kind: DeviceKind, specs: Sequence[Spec], outputs: Sequence[Spec] = (), *, fast: bool = False
    ) -> Kernel | None:
        """Return the usable kernel of highest priority for that kind of device and these dtypes, or None.

        Kernels that approximate are among them only with `fast`.
        """
        if kind is DeviceKind.GPU and not gpu_computes(self.name, (*specs, *outputs)):
            return None
        for kernel in self.kernels.get(kind, ()):
            fits = kernel.dtypes is None or all(spec.dtype in kernel.dtypes for spec in specs)
            if fits and (fast or not kernel.fast) and (kernel.when is None or kernel.when()):
                return kernel
        return None

    # Building

    def __call__(self, *args: Any, name: str | None = None, **kwargs: Any) -> R:
        """Add a node to the graph of the inputs, or to the default graph. TypeError or ValueError for bad arguments.

        The name may be passed by position too, after all parameters or at the position of TensorFlow 1.15.
        """
        try:
            values, given_name = self._arguments(args, kwargs)
            name = name or given_name
            graph = graph_of(values)
            tensors = [v for v, p in zip(values, self.params, strict=True) if p.role != "attr"]
            plain = all(type(value) is Tensor for value in tensors)
            if not plain and (composed := composed_in(tensors)) is not None:
                rule = composed.rule_for(self, self.elementwise)
                if rule is not None:
                    return self._compose(rule, graph, values, name)
            if self._dynamic_rule is not None and self._has_dynamic(values):
                return self._compose(self._dynamic_rule, graph, converted(self.name, self.params, graph, values), name)
            if plain:
                return self._build(graph, values, name)
            return with_empty_lists(lambda given: self._built(graph, given, name), self.params, values)
        except (TypeError, ValueError, RecursionError) as error:
            raise add_user_line(error, self.name, *args, *kwargs.values()) from error

    def _built(self, graph: Graph, values: list[Any], name: str | None) -> R:
        with graph.transaction():
            return self._build(graph, converted(self.name, self.params, graph, values), name)

    def _arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[Any], str | None]:
        given = dict(zip(self._names, args, strict=False))
        name = None
        if len(args) == len(self._names) + 1 and "name" not in given and isinstance(args[-1], str):
            name = args[-1]
        elif len(args) > len(self._names) or not given.keys().isdisjoint(kwargs):
            self._reject(args, kwargs)
        for key, value in kwargs.items():
            own = key if key in self._names else OLD_NAMES.get(key, key)
            given[own] = renamed(own, given[own], value) if own in given else value
        values = []
        for param in self.params:
            if param.name in given:
                value = given.pop(param.name)
            elif param.name in self._defaults:
                value = self._defaults[param.name]
            else:
                self._reject(args, kwargs)
            if param.role == "attr":
                value = attribute_of(param, value, param.name in self._dynamic)
            values.append(value)
        name = given.pop("name", name) if "name" in self._names else name
        if given:
            self._reject(args, kwargs)
        return values, name

    def _has_dynamic(self, values: list[Any]) -> bool:
        """Whether an attribute is a tensor that only a run knows."""
        attrs = [value for value, param in zip(values, self.params, strict=True) if param.name in self._dynamic]
        return any(type(value) is Tensor for value in attrs)

    def _compose(self, rule: Callable[..., R], graph: Graph, values: list[Any], name: str | None) -> R:
        """Build the op from others, by that rule."""
        try:
            with graph.transaction(), graph.as_default(), graph.name_scope(name or self.name):
                return rule(*values)
        except (TypeError, ValueError) as error:
            raise with_text(error, f"{self.name}: {error}") from error

    def _reject(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> typing.NoReturn:
        parameters = [p for p in self.__signature__.parameters.values() if p.kind is not p.KEYWORD_ONLY]
        shown = ", ".join(p.name if p.default is p.empty else f"{p.name}={p.default!r}" for p in parameters)
        try:
            inspect.signature(self.rule).bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{error}; it is called as {self.name}({shown})") from None
        raise TypeError(f"it is called as {self.name}({shown}), and was given {args} {kwargs}")

    def _build(self, graph: Graph, values: list[Any], name: str | None) -> R:
        inputs: list[Tensor] = []
        attrs: Attrs = {}
        arguments: list[Any] = []
        for param, value in zip(self.params, values, strict=True):
            if param.role == "tensor":
                tensor = value if value.op.graph is graph else graph.adopt(value)
                inputs.append(tensor)
                arguments.append(tensor.spec)
            elif param.role == "list":
                tensors = [graph.adopt(item) for item in value]
                inputs.extend(tensors)
                arguments.append([item.spec for item in tensors])
            else:
                attrs[param.name] = value
                arguments.append(value)
        specs, result = self._infer(arguments, inputs, name)
        operation = graph.add(self, tuple(inputs), attrs, specs, name)
        if result is Spec:
            return operation.outputs[0]  # type: ignore[return-value]
        return operation.outputs if result is tuple else operation  # type: ignore[return-value]

    def _infer(self, arguments: list[Any], inputs: Sequence[Tensor], name: str | None) -> tuple[Sequence[Spec], type]:
        try:
            given = [] if self.check_rule is None else self._with_constants(arguments, inputs)
            result = self._apply_rule(arguments)
            if self.check_rule is not None:
                self.check_rule(*given)
        except (TypeError, ValueError) as error:
            raise with_text(error, self._explain(error, inputs, name)) from error
        if isinstance(result, Spec):
            return (result,), Spec
        return ((), Operation) if result is None else (result, tuple)

    def _with_constants(self, arguments: list[Any], inputs: Sequence[Tensor]) -> list[Any]:
        data = iter(self.regroup([t.op.attrs["value"] if t.op.type == "constant" else t.spec for t in inputs]))
        return [a if p.role == "attr" else next(data) for p, a in zip(self.params, arguments, strict=True)]

    def _apply_rule(self, arguments: list[Any]) -> Any:
        if self._name_at is not None:
            arguments.insert(self._name_at, None)
        return self.rule(*arguments)

    def _explain(self, error: Exception, inputs: Sequence[Tensor], name: str | None) -> str:
        given = ", ".join(f"{tensor.name} {tensor.spec}" for tensor in inputs)
        label = f" {name.rstrip('/')!r}" if name else ""
        return f"{self.name}{label}: {error}" + (f"\n  inputs: {given}" if given else "") + _built_at()

    def infer(self, inputs: Sequence[Spec], attrs: Attrs) -> Sequence[Spec]:
        """Return the output Specs for flat input Specs."""
        grouped = iter(self.regroup(list(inputs)))
        arguments = [attrs[p.name] if p.role == "attr" else next(grouped) for p in self.params]
        result = self._apply_rule(arguments)
        return (result,) if isinstance(result, Spec) else () if result is None else result

    def regroup(self, flat: Sequence[Any]) -> list[Any]:
        """Group flat inputs by the op's parameters: single inputs, and sequences of equal length."""
        if not self._lists:
            return list(flat)
        length = (len(flat) - self._singles) // self._lists
        grouped: list[Any] = []
        position = 0
        for param in self.params:
            if param.role == "tensor":
                grouped.append(flat[position])
                position += 1
            elif param.role == "list":
                grouped.append(flat[position : position + length])
                position += length
        return grouped

    def grouped(self, function: Callable[..., Any], skip: int = 0) -> Callable[..., Any]:
        """Convert `function` of the op's parameters to a function of flat inputs."""
        if not self._lists:
            return function
        if self._lists == 1 and not self._singles and not skip:
            return lambda *flat, **out: function(flat, **out)
        if self._lists == 1 and self._list_is_last:
            singles = skip + self._singles
            return lambda *flat, **out: function(*flat[:singles], flat[singles:], **out)
        return lambda *flat, **out: function(*flat[:skip], *self.regroup(flat[skip:]), **out)

    def __repr__(self) -> str:
        return f"<af.Op {self.name}{self.__signature__}>"

    @property
    def __signature__(self) -> inspect.Signature:
        """The call signature, made at the first use, since most ops of a process are never asked for it."""
        return signature_of(self.name, self.rule)

    def __get__(self, instance: object, owner: type | None = None) -> Self:
        """Return the op itself. `inspect` takes an object with this method for a function, so `help` shows one."""
        return self


REGISTRY: Final[Registry[Op[Any]]] = Registry(
    "aioflow.kernels",
    "aioflow.library.branches",
    "aioflow.library.loops",
    "aioflow.library.lstm",  # the last three declare gradients
)
"""{name: op} of all ops. A graph from a file or a peer can name only these."""


@overload
def op(rule: Callable[..., Spec]) -> Op[Tensor]: ...
@overload
def op(rule: Callable[..., tuple[Spec, ...]]) -> Op[tuple[Tensor, ...]]: ...
@overload
def op(rule: Callable[..., None]) -> Op[Operation]: ...
@overload
def op(
    *,
    name: str | None = ...,
    stateful: bool = ...,
    observes: bool = ...,
    counted: bool = ...,
    waits: bool = ...,
    commutative: bool = ...,
    elementwise: bool = ...,
    handle: bool = ...,
) -> "_Declare": ...
def op(rule: Callable[..., Any] | None = None, *, name: str | None = None, **flags: bool) -> Any:
    """Declare an op from its shape rule.

    Args:
        rule: the shape rule; the op takes its name and docstring.
        name: the op's name, if it cannot be the rule's.
        **flags: `stateful`: two runs differ from one; such ops are never merged or folded. `observes`: stateful, but it
            changes no state, so two such ops may change places. `counted`: stateful, and it counts its runs.
            `waits`: it may suspend. `commutative`: its two inputs may be swapped. `elementwise`: each element of the
            result depends only on the elements at its position, so kernels may work on flat parts of the arrays.
            `handle`: without inputs, it gives the same live object in every step of a session, which a plan keeps.
    """

    def declare(rule: Callable[..., Any]) -> Op[Any]:
        made: Op[Any] = Op(rule, name or rule.__name__, Flags(**flags))
        if made.name in REGISTRY:
            raise ValueError(f"op {made.name!r} is declared twice")
        REGISTRY[made.name] = made
        return made

    return declare if rule is None else declare(rule)


class _Declare(Protocol):
    @overload
    def __call__(self, rule: Callable[..., Spec]) -> Op[Tensor]: ...
    @overload
    def __call__(self, rule: Callable[..., tuple[Spec, ...]]) -> Op[tuple[Tensor, ...]]: ...
    @overload
    def __call__(self, rule: Callable[..., None]) -> Op[Operation]: ...


def _built_at() -> str:
    line = user_line()
    return "" if line is None else f"\n  built at: {line[0]}:{line[1]} in {line[2]}"
