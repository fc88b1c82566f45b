"""The base of all optimizers: gradients of a loss, one update per variable, slots, the global step.

A subclass creates the slots of a variable (`_create_slots`) and applies a gradient to it (`_apply_dense`,
`_apply_sparse`). Numbers such as the learning rate are Python numbers, tensors, or functions that return either.

The base of optimizers that change gradients and pass them to an inner optimizer.

Slots: variables that an optimizer keeps for a variable, with its shape, device and container.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, Final, TypeAlias

from aioflow.autodiff.gradients import gradients
from aioflow.graph import scopes
from aioflow.graph.building import get_default_graph, graph_to_build_in
from aioflow.graph.convert import NumberLike, TensorLike, convert_to_tensor
from aioflow.graph.graph import Graph
from aioflow.graph.graph_keys import GraphKeys
from aioflow.graph.indexed_slices import IndexedSlices
from aioflow.graph.operation import Operation, Tensor, items_of
from aioflow.kernels.array.constants import constant, fill, zeros_like
from aioflow.kernels.nn.optimizers import deduplicate_rows
from aioflow.library import control
from aioflow.library.variables import Variable
from aioflow.tensors.dtypes import FLOAT, DType
from aioflow.train.numbers import as_number

Gradient: TypeAlias = Tensor | IndexedSlices
GradsAndVars: TypeAlias = Sequence[tuple[Gradient | None, Any]]


class Optimizer:
    """Updates variables to make a loss smaller.

        train = af.train.GradientDescentOptimizer(0.1).minimize(loss)

    or in two steps, with the gradients in between as (gradient, variable) pairs:

        pairs = optimizer.compute_gradients(loss)
        train = optimizer.apply_gradients([(af.clip_by_norm(g, 1.0), v) for g, v in pairs])

    A subclass defines `_apply_dense` and, if it needs them, `_apply_sparse`, `_create_slots`, `_prepare`, `_finish`.

    Args:
        use_locking: for compatibility: every update is atomic.
        name: the name scope of the updates, and the last part of the names of slots.

    Examples:
        >>> weight = af.Variable(2.0)
        >>> optimizer = af.train.GradientDescentOptimizer(0.1)
        >>> ((gradient, variable),) = optimizer.compute_gradients(af.square(weight))
        >>> train = optimizer.apply_gradients([(af.clip_by_value(gradient, -1.0, 1.0), variable)])
        >>> await session.run(weight.initializer)
        >>> await session.run(train)
        >>> await session.run(weight)
        np.float32(1.9)
    """

    GATE_NONE: ClassVar[int] = 0
    GATE_OP: ClassVar[int] = 1
    GATE_GRAPH: ClassVar[int] = 2

    def __init__(self, use_locking: bool, name: str) -> None:
        if not name:
            raise ValueError("an optimizer needs a name")
        self._use_locking: Final = use_locking
        self._name: Final = name
        self._numbers: dict[str, Any] = {}
        self._tensors: dict[tuple[str, DType], Tensor] = {}
        self._scope = ""
        self._slots: Final[dict[str, dict[tuple[Graph, str], Variable]]] = {}
        self._non_slots: Final[dict[tuple[Graph, str], Variable]] = {}

    def get_name(self) -> str:
        """The name of the optimizer."""
        return self._name

    def minimize(
        self,
        loss: Tensor | Callable[[], Tensor],
        global_step: Variable | None = None,
        var_list: Iterable[Any] | Callable[[], Iterable[Any]] | None = None,
        gate_gradients: int = GATE_OP,
        aggregation_method: int | None = None,
        colocate_gradients_with_ops: bool = False,
        name: str | None = None,
        grad_loss: NumberLike | None = None,
    ) -> Operation:
        """Return an operation that takes one step towards a smaller `loss`: `compute_gradients`, `apply_gradients`.

        Raises:
            ValueError: there are no variables, the loss depends on none of them, or something is not floating.
        """
        loss, var_list = _loss_and_variables(loss, var_list)
        _check_arguments(loss, var_list, global_step)
        with loss.graph.transaction():
            pairs = self.compute_gradients(
                loss, var_list, gate_gradients, aggregation_method, colocate_gradients_with_ops, grad_loss
            )
            if all(gradient is None for gradient, _ in pairs):
                names = ", ".join(repr(variable.name) for _, variable in pairs)
                raise ValueError(
                    f"the loss {loss.name!r} has no gradient for any of the variables {names}: it does not depend on "
                    "them, or an operation in between has none"
                )
            return self.apply_gradients(pairs, global_step, name)

    def compute_gradients(
        self,
        loss: Tensor | Callable[[], Tensor],
        var_list: Iterable[Any] | Callable[[], Iterable[Any]] | None = None,
        gate_gradients: int = GATE_OP,
        aggregation_method: int | None = None,
        colocate_gradients_with_ops: bool = False,
        grad_loss: NumberLike | None = None,
    ) -> list[tuple[Gradient | None, Any]]:
        """Return the gradients of `loss` as (gradient, variable) pairs; None for a variable it does not depend on.

        Args:
            loss: the tensor to minimize, or a function that returns it.
            var_list: the variables, or a function that returns them; the graph's trainable ones by default.
            gate_gradients: GATE_GRAPH computes all gradients before any is used. GATE_OP has no effect here, since an
                update never changes a value that an operation has read.
            aggregation_method: the way to add the gradients of several uses: one of AggregationMethod's.
            colocate_gradients_with_ops: whether the gradient of an operation is on the operation's device.
            grad_loss: the gradient of the loss, by default 1.

        Raises:
            ValueError: there are no variables, or the loss or a variable that it depends on is not floating.
        """
        if gate_gradients not in (self.GATE_NONE, self.GATE_OP, self.GATE_GRAPH):
            raise ValueError(f"gate_gradients is GATE_NONE, GATE_OP or GATE_GRAPH, not {gate_gradients!r}")
        loss, given = _loss_and_variables(loss, var_list)
        _check_arguments(loss, given, None)
        chosen = loss.graph.get_collection(GraphKeys.TRAINABLE_VARIABLES) if given is None else list(given)
        if not chosen:
            raise ValueError("there are no variables to optimize")
        self._check_dtypes([loss])
        found = gradients(
            loss, chosen, grad_loss, "gradients", colocate_gradients_with_ops, aggregation_method=aggregation_method
        )
        if gate_gradients == self.GATE_GRAPH:
            found = control.tuple(found) if any(gradient is not None for gradient in found) else found
        pairs = list(zip(found, chosen, strict=True))
        self._check_dtypes(variable for gradient, variable in pairs if gradient is not None)
        return pairs

    def apply_gradients(
        self, grads_and_vars: Iterable[tuple[Any, Any]], global_step: Variable | None = None, name: str | None = None
    ) -> Operation:
        """Return an operation that updates each variable by its gradient, and then adds 1 to `global_step`.

        Variables whose gradient is None stay unchanged. Rows that a sparse gradient names twice are summed first.

        Raises:
            TypeError: a gradient is no tensor and cannot be converted, or its target is not a variable.
            ValueError: there are no gradients.
        """
        _check_global_step(global_step)
        pairs = [(_as_gradient(gradient), variable) for gradient, variable in _as_pairs(grads_and_vars)]
        if not pairs:
            raise ValueError("no gradients and variables were given")
        updates = [(gradient, _as_variable(variable)) for gradient, variable in pairs if gradient is not None]
        if not updates:
            names = ", ".join(repr(getattr(variable, "name", variable)) for _, variable in pairs)
            raise ValueError(f"there is no gradient for any of the variables {names}")
        graph = graph_to_build_in(updates[0][1].graph)
        root = graph.root  # slots outlive the branch or loop in which gradients are applied
        with graph.transaction(), graph.as_default():
            with root.as_default(), root.control_dependencies(None):
                self._create_slots([variable for _, variable in updates])
            return self._build(graph, updates, global_step, name or self._name)

    def _build(
        self, graph: Graph, updates: list[tuple[Gradient, Variable]], global_step: Variable | None, name: str
    ) -> Operation:
        with graph.name_scope(name) as scope:
            self._scope = scope
            self._tensors.clear()
            self._prepare()
            made = [self._update(graph, gradient, variable) for gradient, variable in updates]
            if global_step is None:
                done = _operation(self._finish(made, scope))
            else:
                with graph.control_dependencies([self._finish(made, "update")]):
                    done = global_step.assign_add(1, name=scope, read_value=False)
        if done not in graph.get_collection(GraphKeys.TRAIN_OP):
            graph.add_to_collection(GraphKeys.TRAIN_OP, done)
        return done

    def _update(self, graph: Graph, gradient: Gradient, variable: Variable) -> Operation:
        constraint = variable.constraint
        with (
            graph.name_scope("update_" + variable.op.name),
            graph.colocate_with(variable.handle, ignore_existing=True),
        ):
            if isinstance(gradient, Tensor):
                made = _operation(self._apply_dense(gradient, variable))
            elif constraint is not None:
                raise RuntimeError(f"{variable!r} has a constraint, which a sparse gradient cannot keep")
            else:
                made = _operation(self._apply_sparse_duplicate_indices(gradient, variable))
            if constraint is None:
                return made
            with graph.control_dependencies([made]):
                return variable.assign(constraint(variable), read_value=False)

    # Slots

    def get_slot(self, var: Variable, name: str) -> Variable | None:
        """Return the slot of that name of a variable, None before it is created."""
        return self._slots.get(name, {}).get(_key(var))

    def get_slot_names(self) -> list[str]:
        """Return the names of its slots."""
        return sorted(self._slots)

    def variables(self) -> list[Variable]:
        """Return all its variables in the default graph, slots and others, by name."""
        graph = get_default_graph()
        groups = [self._non_slots, *self._slots.values()]
        return sorted((v for group in groups for v in group.values() if v.graph is graph), key=lambda v: v.name)

    # Defined by subclasses

    def _create_slots(self, var_list: Sequence[Variable]) -> None:
        """Create the slots of these variables, with `_zeros_slot` and its like."""

    def _prepare(self) -> None:
        """Prepare the updates. Called once before they are built, in their name scope."""

    def _apply_dense(self, grad: Tensor, var: Variable) -> Operation | Tensor:
        """Return an operation that updates `var` by `grad`."""
        raise NotImplementedError(f"{type(self).__name__} has no dense update: define _apply_dense")

    def _apply_sparse(self, grad: IndexedSlices, var: Variable) -> Operation | Tensor:
        """Return an operation that updates `var` by `grad`, whose indices are all different."""
        raise NotImplementedError(f"{type(self).__name__} has no sparse update: define _apply_sparse")

    def _apply_sparse_duplicate_indices(self, grad: IndexedSlices, var: Variable) -> Operation | Tensor:
        """Return an operation that updates `var` by `grad`, whose indices may repeat."""
        values, indices = deduplicate_rows(grad.values, grad.indices)
        return self._apply_sparse(IndexedSlices(values, indices, grad.dense_shape), var)

    def _finish(self, update_ops: Sequence[Operation], name_scope: str) -> Operation | Tensor:
        """Return an operation of that name that is done when all updates are."""
        return control.group(*update_ops, name=name_scope)

    def _valid_dtypes(self) -> frozenset[DType]:
        """Return the allowed dtypes of loss and variables."""
        return FLOAT

    # Used by subclasses

    def _number(self, name: str, var: Variable) -> Tensor:
        """Return the number `_numbers[name]` as a tensor of the dtype of `var`."""
        found = self._tensors.get((name, var.dtype))
        if found is None:
            with scopes.change_scope(graph_to_build_in(var.graph), name=self._scope[:-1], colocation=()):
                value = self._call_if_callable(self._numbers[name])
                found = self._tensors[name, var.dtype] = as_number(value, var.dtype, name)
        return found

    def _slot(self, var: Variable, name: str) -> Tensor:
        """Return an existing slot."""
        return self._slots[name][_key(var)].handle

    def _zeros_slot(self, var: Variable, slot_name: str, op_name: str) -> Variable:
        """Return the slot, created with zeros if it is missing."""
        return self._filled_slot(var, 0, slot_name, op_name)

    def _filled_slot(self, var: Variable, value: float, slot_name: str, op_name: str) -> Variable:
        """Return the slot, created with that number if it is missing."""
        return self._get_or_make_slot(var, lambda: filled(var, value), slot_name, op_name)

    def _get_or_make_slot(self, var: Variable, val: Any, slot_name: str, op_name: str) -> Variable:
        """Return the slot, created with `val`, a value or a function that returns one, if it is missing."""
        named = self._slots.setdefault(slot_name, {})
        return self._get_or_create(named, _key(var), lambda: create_slot(var, val, op_name))

    def _create_non_slot_variable(self, initial_value: Any, name: str, colocate_with: Variable) -> Variable:
        """Return the variable of that name that belongs to no other in particular, created if it is missing."""
        graph = colocate_with.graph
        container = colocate_with.op.attrs["container"]

        def make() -> Variable:
            with graph.colocate_with(colocate_with.handle, ignore_existing=True), graph.container(container):
                return Variable(initial_value, name=name, trainable=False)

        return self._get_or_create(self._non_slots, (graph, name), make)

    def _get_non_slot_variable(self, name: str, graph: Graph | None = None) -> Variable | None:
        """Return a variable that `_create_non_slot_variable` created."""
        return self._non_slots.get(((graph or get_default_graph()).root, name))

    def _call_if_callable(self, param: Any) -> Any:
        """Return the value, or the result of it if it is a function."""
        return param() if callable(param) else param

    def _get_or_create(self, group: dict[tuple[Graph, str], Variable], key: tuple[Graph, str], make: Any) -> Variable:
        if key not in group:
            group[key] = make()
            key[0].on_failure(lambda: group.pop(key))
        return group[key]

    def _check_dtypes(self, values: Iterable[Any]) -> None:
        valid = self._valid_dtypes()
        for value in values:
            if value.dtype not in valid:
                allowed = ", ".join(sorted(dtype.name for dtype in valid))
                raise ValueError(f"{value.name!r} has dtype {value.dtype.name}; an optimizer needs one of {allowed}")


def _key(var: Variable) -> tuple[Graph, str]:
    return var.graph, var.op.name


def _loss_and_variables(loss: Any, var_list: Any) -> tuple[Tensor, Any]:
    """Return a loss and variables, each given as such or as a function without arguments."""
    return loss() if callable(loss) else loss, var_list() if callable(var_list) else var_list


def _check_arguments(loss: Any, var_list: Any, global_step: Any) -> None:
    if not isinstance(loss, Tensor):
        raise TypeError(f"the loss must be a tensor, not {loss!r}")
    for variable in () if var_list is None else items_of("var_list", var_list):
        if not isinstance(variable, (Tensor, Variable)):
            raise TypeError(f"var_list must hold variables, not {variable!r}")
    _check_global_step(global_step)


def _check_global_step(global_step: Any) -> None:
    if global_step is not None and not isinstance(global_step, Variable):
        raise TypeError(f"global_step must be a variable, not {global_step!r}: see af.train.get_or_create_global_step")


def _as_pairs(grads_and_vars: Any) -> list[tuple[Any, Any]]:
    pairs = list(items_of("grads_and_vars", grads_and_vars))
    for pair in pairs:
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise TypeError(f"grads_and_vars must hold pairs of a gradient and a variable, not {pair!r}")
    return pairs


def _as_gradient(gradient: Any) -> Gradient | None:
    if gradient is None or isinstance(gradient, (Tensor, IndexedSlices)):
        return gradient
    try:
        return convert_to_tensor(gradient)
    except (TypeError, ValueError) as error:
        raise TypeError(f"a gradient is a tensor, IndexedSlices or None, not {gradient!r}: {error}") from None


def _as_variable(variable: Any) -> Variable:
    if not isinstance(variable, Variable):
        raise TypeError(f"only a variable can be updated, not {variable!r}")
    return variable


def _operation(made: Operation | Tensor) -> Operation:
    return made.op if isinstance(made, Tensor) else made


class WrappingOptimizer(Optimizer):
    """An optimizer around an inner one, from which it has gradients, slots and variables.

    Args:
        opt: the inner optimizer.
        use_locking: for compatibility: every update is atomic.
        name: the name of the operations.
    """

    def __init__(self, opt: Optimizer, use_locking: bool, name: str) -> None:
        super().__init__(use_locking, name)
        self._opt: Final = opt

    def compute_gradients(self, *args: Any, **kwargs: Any) -> list[tuple[Gradient | None, Any]]:
        """Return the gradients of the inner optimizer: see `Optimizer.compute_gradients`."""
        return self._opt.compute_gradients(*args, **kwargs)

    def get_slot(self, var: Variable, name: str) -> Variable | None:
        """Return the slot of the inner optimizer."""
        return self._opt.get_slot(var, name)

    def get_slot_names(self) -> list[str]:
        """Return the names of slots of the inner optimizer."""
        return self._opt.get_slot_names()

    def variables(self) -> list[Variable]:
        """Return all variables of the inner optimizer."""
        return self._opt.variables()


def part_of_training(applied: Operation) -> Operation:
    """Return the inner train operation, removed from the collection of train operations: the outer one is listed."""
    trains = applied.graph.get_collection_ref(GraphKeys.TRAIN_OP)
    trains.remove(applied)
    applied.graph.on_failure(lambda: trains.append(applied))
    return applied


def with_gradients(grads_and_vars: Iterable[tuple[Any, Any]]) -> list[tuple[Gradient, Any]]:
    """Return the pairs with a gradient. ValueError if there is none."""
    pairs = [(gradient, variable) for gradient, variable in grads_and_vars if gradient is not None]
    if not pairs:
        raise ValueError("there is no gradient for any variable")
    return pairs


def create_slot(
    primary: Variable, val: TensorLike | Callable[[], TensorLike], name: str, colocate_with_primary: bool = True
) -> Variable:
    """Return a variable named `primary/name` with the initial value `val`, a value or a function that returns one."""
    graph = primary.graph
    home = (primary.op.name,) if colocate_with_primary else ()
    place = {"colocation": home, "devices": ()} if colocate_with_primary else {}
    container = primary.op.attrs["container"]
    with graph.as_default(), scopes.change_scope(graph, name="", controls=(), container=container, **place):
        slot = Variable(
            val, trainable=False, validate_shape=primary.shape.is_fully_defined(), name=f"{primary.op.name}/{name}"
        )
    if primary.part_of is not None and slot.shape == primary.shape:
        own = slot.op.name.removeprefix(primary.op.name)
        slot.part_of = primary.part_of._replace(name=primary.part_of.name + own)
    return slot


def create_zeros_slot(primary: Variable, name: str, dtype: Any = None, colocate_with_primary: bool = True) -> Variable:
    """Return a variable named `primary/name` with the shape of `primary` and zeros."""
    return create_slot(primary, lambda: filled(primary, 0, dtype), name, colocate_with_primary)


def filled(primary: Variable, value: float, dtype: Any = None) -> Tensor:
    """Return a tensor of that number with the shape of `primary`."""
    number = constant(value, dtype or primary.dtype)
    if primary.shape.is_fully_defined():
        return fill(primary.shape.as_list(), number)
    zeros: Tensor = zeros_like(primary.initialized_value(), number.dtype)
    return zeros + number
