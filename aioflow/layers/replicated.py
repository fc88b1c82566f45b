"""The step of training on several devices: a replica of the model on each, with a share of the batch."""

import contextlib
import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from aioflow.graph.operation import Operation, Tensor
from aioflow.kernels.array.concat import concat
from aioflow.kernels.array.constants import zeros
from aioflow.kernels.array.shapes import shape
from aioflow.kernels.math.arithmetic import add_n
from aioflow.kernels.math.casting import cast
from aioflow.kernels.math.no_nan import div_no_nan, multiply_no_nan
from aioflow.layers import calls
from aioflow.layers.computation import Computation
from aioflow.layers.distribute import Strategy
from aioflow.layers.fed import Batch, Form, fed
from aioflow.layers.layer import Layer
from aioflow.layers.masks import give_masks, mask_of
from aioflow.layers.own_variables import making_only_weights
from aioflow.layers.summed_losses import check_terms, summed_loss
from aioflow.library.control import device
from aioflow.library.variables import Variable
from aioflow.tensors import nest
from aioflow.tensors.dtypes import float32
from aioflow.train.all_reduce import all_reduce_gradients, broadcast_variables
from aioflow.train.optimizer import Optimizer

if TYPE_CHECKING:
    from aioflow.layers.settings import Settings
    from aioflow.layers.trainable import Trainable

Copies = Mapping[Variable, Variable]


class Replicas:
    """The replicas of a model that trains by a strategy, with the copies of its weights on all but the first device."""

    def __init__(self, strategy: Strategy, optimizer: Optimizer) -> None:
        self.strategy: Final = strategy
        self._optimizer: Final = optimizer
        self._copies: list[dict[Variable, Variable]] = [{} for _ in strategy.devices]

    def trained(self, model: "Trainable", settings: "Settings", form: Form, counter: Variable | None) -> Computation:
        """Build a step of training."""
        weights = model.trainable_weights
        self.strategy.check(weights)
        shares = [self._fed(model, form, number) for number in range(len(self._copies))]
        towers = [self._forward(model, settings, number, share) for number, share in enumerate(shares)]
        with self._at(0):
            rows = add_n([tower.rows for tower in towers])
            columns = zip(*[tower.counts for tower in towers], strict=True)
            counts = [None if each[0] is None else add_n(list(each)) for each in columns]
        parts = [self._parts(tower, counts, number) for number, tower in enumerate(towers)]
        losses = [
            self._loss(model, settings, tower, rows, parts[number], number) for number, tower in enumerate(towers)
        ]
        with self._at(0):
            loss = add_n(losses)
            whole = [None if each[0] is None else add_n(list(each)) for each in zip(*parts, strict=True)]
            batch, outputs = _joined(shares), _joined_outputs([tower.outputs for tower in towers])
        updates = [self._update(losses, loss, weights, counter)] if weights else []
        equalize = self.equalized(weights, slots=True)
        updates += towers[0].updates
        return Computation(shares, batch, outputs, loss, whole, updates, equalize, self.strategy.devices[0])

    def _fed(self, model: "Trainable", form: Form, number: int) -> Batch:
        with self._at(number):
            return fed(model, form)

    def _forward(self, model: "Trainable", settings: "Settings", number: int, share: Batch) -> "_Tower":
        """One replica's outputs, and the sums of its losses."""
        self._copy(model.trainable_weights, number)
        inputs = nest.pack_sequence_as(model.inputs, list(share.inputs))
        used = using(model, self._copies[number])
        with self._at(number), making_only_weights(model), used, calls.gathered_effects() as effects:
            outputs = nest.flatten(model(inputs, training=True))
            rows = cast(shape(share.inputs[0])[0], float32)
            parts = [
                None if loss is None else summed_loss(loss, share.labels[at], output, share.weights_of(at), rows)
                for at, (loss, output) in enumerate(zip(settings.losses, outputs, strict=True))
            ]
            sums = [None if part is None else part.total for part in parts]
            counts = [None if part is None else part.number(rows) for part in parts]
        self._check_reads(model, [*[each for each in sums if each is not None], *effects.losses], number)
        return _Tower(outputs, sums, counts, effects.losses, effects.updates, rows)

    def _parts(self, tower: "_Tower", counts: Sequence[Tensor | None], number: int) -> list[Tensor | None]:
        """The part of a replica in the loss of each output for the whole batch."""
        with self._at(number):
            return [
                None if total is None or count is None else div_no_nan(total, count)
                for total, count in zip(tower.sums, counts, strict=True)
            ]

    def _loss(
        self, model: "Trainable", settings: "Settings", tower: "_Tower", rows: Tensor, parts: Sequence[Tensor | None],
        number: int,
    ) -> Tensor:  # fmt: skip
        """The part of a replica in the loss of the whole batch. The first one has the penalties of the weights, too."""
        with self._at(number):
            pairs = zip(parts, settings.factors, strict=True)
            chosen = [part * factor for part, factor in pairs if part is not None]
            added = [multiply_no_nan(loss, tower.rows / rows) for loss in tower.losses]
            terms = [*chosen, *added, *([] if number else model.losses)]
            check_terms(terms, model.name)
            return add_n(terms)

    def _update(
        self, losses: Sequence[Tensor], loss: Tensor, weights: Sequence[Variable], counter: Variable | None
    ) -> Operation:
        """Updates the weights, by the sums of the gradients of all replicas."""
        if not self.strategy.mirrored:
            pairs = self._optimizer.compute_gradients(loss, weights, colocate_gradients_with_ops=True)
            return self._optimizer.apply_gradients(pairs, counter)
        towers = []
        for number, part in enumerate(losses):
            with self._at(number):
                own = [self._copies[number].get(weight, weight) for weight in weights]
                towers.append(self._optimizer.compute_gradients(part, own))
        reduced = all_reduce_gradients(towers, "sum")
        return self._optimizer.apply_gradients([pair for pairs in reduced for pair in pairs], counter)

    def equalized(self, weights: Sequence[Variable], slots: bool) -> Operation | None:
        """An operation that gives copies, and perhaps their slots, the values of the weights; None without copies."""
        if not any(self._copies):
            return None
        names = self._optimizer.get_slot_names() if slots else []
        towers = []
        for copies in self._copies:
            own = [copies.get(weight, weight) for weight in weights]
            found = [self._optimizer.get_slot(each, name) for name in names for each in own]
            towers.append([*own, *[slot for slot in found if slot is not None]])
        return broadcast_variables(towers)

    def _at(self, number: int) -> contextlib.AbstractContextManager[None]:
        return device(self.strategy.devices[number])

    def _copy(self, weights: Sequence[Variable], number: int) -> None:
        """Make the copies of weights that a replica lacks. They have no value before `equalized` runs."""
        copies = self._copies[number]
        for weight in weights if number and self.strategy.mirrored else []:
            if weight not in copies:
                with self._at(number):
                    copies[weight] = _copy_of(weight, number)
                weight.graph.on_failure(functools.partial(copies.pop, weight))

    def _check_reads(self, model: "Trainable", losses: Sequence[Tensor], number: int) -> None:
        """Raise ValueError if a replica reads weights of the first one: its gradient would miss a part."""
        copied = {weight.op: weight for weight in self._copies[number]}
        for operation in calls.sources([loss.op for loss in losses]):
            if operation in copied:
                raise ValueError(
                    f"the weight {operation.name!r} is read outside of the layers of {model.name!r}, so that it cannot "
                    "have copies on several devices: read it in the call of a layer that has it as an attribute"
                )


class _Tower(NamedTuple):
    """One replica.

    Attributes:
        outputs: its outputs.
        sums: for each output the sum of its losses; None without a loss.
        counts: for each output the number of its losses; None without a loss.
        losses: the losses that layers added.
        updates: the updates that layers added.
        rows: the number of its elements.
    """

    outputs: Sequence[Tensor]
    sums: Sequence[Tensor | None]
    counts: Sequence[Tensor | None]
    losses: Sequence[Tensor]
    updates: Sequence[Operation]
    rows: Tensor


def _joined(shares: Sequence[Batch]) -> Batch:
    """The whole batch."""
    columns = zip(*[share.labels for share in shares], strict=True)
    labels = [None if each[0] is None else concat(list(each), 0) for each in columns]
    weights = [concat(list(each), 0) for each in zip(*[share.weights for share in shares], strict=True)]
    return Batch([], labels, weights)


def _joined_outputs(outputs: Sequence[Sequence[Tensor]]) -> list[Tensor]:
    """The outputs for the whole batch, with their masks."""
    found = []
    for each in zip(*outputs, strict=True):
        whole = concat(list(each), 0)
        masks = [mask for mask in map(mask_of, each) if mask is not None]
        if masks:
            give_masks(whole, concat(masks, 0))
        found.append(whole)
    return found


def _copy_of(weight: Variable, number: int) -> Variable:
    """A variable like the weight, which is in no collection: savers and initializers of a graph do not see it."""
    name = f"{weight.op.name}/replica_{number}"
    sizes = [size or 0 for size in weight.shape.as_list()]
    with weight.graph.name_scope(None):
        made = Variable(lambda: zeros(sizes, weight.dtype), False, [], name=name, constraint=weight.constraint)
    made.trainable = True
    return made


@contextlib.contextmanager
def using(layer: Layer, copies: Copies) -> Iterator[None]:
    """Inside the block the layer and its parts have the copies of weights in place of the weights."""
    changed = [(part, _changes(part, copies)) for part in _all_parts(layer)] if copies else []
    before = [(part, {name: vars(part)[name] for name in changes}) for part, changes in changed]
    try:
        for part, changes in changed:
            vars(part).update(changes)
        yield
    finally:
        for part, values in before:
            vars(part).update(values)


def _all_parts(layer: Layer) -> list[Layer]:
    found, waiting = {layer: None}, [layer]
    while waiting:
        new = [part for part in waiting.pop().layers if part not in found]
        found.update(dict.fromkeys(new))
        waiting += new
    return list(found)


def _changes(layer: Layer, copies: Copies) -> dict[str, Any]:
    """The attributes of a layer that hold weights, with the copies."""
    new = {name: _replaced(value, copies) for name, value in vars(layer).items()}
    return {name: value for name, value in new.items() if value is not vars(layer)[name]}


def _replaced(value: Any, copies: Copies) -> Any:
    """A value, or the same structure with copies if it has weights."""
    if isinstance(value, Variable):
        return copies.get(value, value)
    if isinstance(value, dict):
        new = {key: _replaced(item, copies) for key, item in value.items()}
        return new if any(new[key] is not item for key, item in value.items()) else value
    if type(value) in (list, tuple):
        items = type(value)(_replaced(item, copies) for item in value)
        return items if any(one is not other for one, other in zip(items, value, strict=True)) else value
    return value
