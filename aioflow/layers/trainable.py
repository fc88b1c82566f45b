"""`compile`, `fit`, `evaluate`, `predict` of a model, and the session that its weights live in."""

import contextlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from aioflow.kernels.array.constants import placeholder
from aioflow.layers import fitting
from aioflow.layers.arrangement import Arrangement
from aioflow.layers.batches import batches_of
from aioflow.layers.callback import Callback, CallbackList
from aioflow.layers.callbacks import History
from aioflow.layers.class_weights import check_class_weight, with_class_weights
from aioflow.layers.conversion import batch_of
from aioflow.layers.distribute import Strategy, checked_strategy
from aioflow.layers.fed import Batch, Form, Keys, form_of, input_like, opened
from aioflow.layers.fit_settings import Schedule, Validation, data_of, told
from aioflow.layers.layer import undone_on_failure
from aioflow.layers.numbers import at_least, switch
from aioflow.layers.overrides import MODEL, check_overrides
from aioflow.layers.own_variables import making_only_weights
from aioflow.layers.part_names import output_names
from aioflow.layers.row_order import row_order
from aioflow.layers.settings import Optimizing, Settings, check_labels, check_optimizer, settings_of
from aioflow.layers.steps import Steps
from aioflow.layers.stored_weights import StoredWeights
from aioflow.library.variables import Variable
from aioflow.session import Session
from aioflow.tensors import nest
from aioflow.tensors.dtypes import float64
from aioflow.train.optimizer import Optimizer


class Trainable(StoredWeights):
    """A layer that can be trained and used by itself."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.stop_training = False
        self.is_open: bool = False
        self._compiled: tuple[Any, ...] | None = None
        self._settings: Settings | None = None
        self._steps: dict[Form, Steps] = {}
        self._optimizer: Any = None
        self._strategy: Strategy | None = None
        self._optimizing: Optimizing | None = None

    def _takes_double(self) -> bool:
        inputs = [] if self.inputs is None else nest.flatten(self.inputs)
        return any(tensor.dtype is float64 for tensor in inputs) or super()._takes_double()

    # Settings

    def compile(
        self,
        optimizer: Any = "rmsprop",
        loss: Any = None,
        metrics: Any = None,
        loss_weights: Any = None,
        weighted_metrics: Any = None,
        strategy: Strategy | None = None,
    ) -> None:
        """Choose how the model is trained and measured.

        Args:
            optimizer: a name such as "adam", or an `af.train.Optimizer`.
            loss: a name such as "mse", an object of `af.losses`, or a function (labels, predictions) -> losses; for
                several outputs a structure of these like that of the outputs, a dict by their names, or one for all.
                None in it leaves the output out of the loss. With None alone the loss is what layers add by `add_loss`
                and the penalties of weights.
            metrics: a list of names such as "accuracy", or functions (labels, predictions) that give a tensor or, as
                those of `af.metrics`, a value and its update; for several outputs a structure of lists.
            loss_weights: a factor for each loss, in the same forms.
            weighted_metrics: metrics as above, to which the weights of elements and classes apply.
            strategy: the devices that `fit` trains on, see `af.distribute`; one by default.

        Raises:
            TypeError, ValueError: there is nothing of a name, or a setting is of another kind. Losses and metrics are
                checked when the outputs are known. TypeError, too, for a subclass with a method that only Keras calls,
                such as `train_step`.
        """
        check_overrides(type(self), MODEL)
        if self.outputs is not None:
            settings_of(self.outputs, loss, loss_weights, metrics, weighted_metrics)
        check_optimizer(optimizer)
        self._compiled = loss, loss_weights, metrics, weighted_metrics
        self._optimizer, self._strategy, self._optimizing = optimizer, checked_strategy(strategy), None
        self._forget_uses()

    def _train_by(self, strategy: Strategy | None) -> None:
        """Train by this strategy from now on; with None, by the one before."""
        if strategy is not None and strategy is not self._strategy:
            self._strategy, self._optimizing = checked_strategy(strategy), None
            self._forget_uses()

    def _forget_uses(self) -> None:
        """Forget what was built for the outputs and weights that it had, or for other settings."""
        self._settings = None
        self._steps.clear()
        self._kept.clear()

    @property
    def optimizer(self) -> Optimizer:
        """The optimizer. RuntimeError before `compile`."""
        return self._optimize().optimizer

    @property
    def learning_rate(self) -> Variable | None:
        """The learning rate, if the optimizer was given by its name; else None. RuntimeError before `compile`."""
        return self._optimize().rate

    # Training and use

    async def fit(
        self,
        x: Any = None,
        y: Any = None,
        batch_size: int | None = None,
        epochs: int = 1,
        verbose: int | str = "auto",
        callbacks: Callback | Iterable[Callback] | None = None,
        validation_split: float = 0.0,
        validation_data: Any = None,
        shuffle: bool = True,
        class_weight: Mapping[Any, Any] | None = None,
        sample_weight: Any = None,
        initial_epoch: int = 0,
        steps_per_epoch: int | None = None,
        validation_steps: int | None = None,
        validation_batch_size: int | None = None,
        validation_freq: int = 1,
        strategy: Strategy | None = None,
        session: Session | None = None,
    ) -> History:
        """Train the model.

        Args:
            x: arrays, in the structure of the inputs or in a dict by their names; or an iterable or async iterable of
                batches, such as a dataset: tuples of inputs, labels and, if there are any, weights. A list of two or
                three arrays is such a tuple, unless the model has as many inputs and needs no labels.
            y: labels for each element, in the structure of the outputs or in a dict by their names; None, or no key,
                for an output without a loss and metrics; not beside an iterable.
            batch_size: the elements of a step, 32 by default. The last batch of an epoch may have fewer.
            epochs: the number of the last epoch.
            verbose: 0 writes nothing, 1 draws a bar, 2 writes a line for each epoch; "auto" draws a bar in a terminal.
            callbacks: a callback or a list of them, see `af.callbacks`.
            validation_split: the part of the arrays, from their end, for validation only; not with `validation_data`.
            validation_data: (inputs, labels) or (inputs, labels, weights), or batches as for `x`.
            shuffle: whether arrays are trained in a new random order in each epoch. The seed of the graph, see
                `af.set_random_seed`, decides the orders.
            class_weight: a factor for the elements of each class in training, by its number, or a dict of such dicts
                by the names of outputs; not beside an iterable.
            sample_weight: a factor for each element; or a list of such arrays, one for each output, or a dict of them.
            initial_epoch: the number of the first epoch.
            steps_per_epoch: the batches of an epoch, needed if `x` gives batches without end.
            validation_steps: the batches of a validation, likewise.
            validation_batch_size: the elements of a step of validation, `batch_size` by default.
            validation_freq: the number of epochs between two validations.
            strategy: the devices to train on, from now on; those that `compile` was given by default.
            session: the session.

        Returns:
            The history: `.history["loss"]` has a value for each epoch, and so has every metric, and `val_` of each.
            With several outputs it has the loss of each, such as `class_loss`, and the names of metrics begin likewise.

        Raises:
            RuntimeError: the model is not compiled.
            TypeError, ValueError: inputs, labels and settings do not fit.
            OutOfRangeError: the batches end before the epoch does.
            DataLossError: a backup of `BackupAndRestore` is damaged.
        """
        self._check_compiled()
        schedule = Schedule.checked(epochs, initial_epoch, validation_freq)
        shown = told(callbacks, verbose, bars=True)
        self._train_by(strategy)
        used = self._session_for(session)
        random = row_order(used) if switch("shuffle", shuffle) else None
        given = batches_of(x, y, sample_weight, batch_size, steps_per_epoch, self._are_unlabelled, random)
        size = batch_size if validation_batch_size is None else validation_batch_size
        validation = Validation(validation_data, validation_split, size, validation_steps, self._are_unlabelled)
        data = data_of(given, validation, self._weighting(class_weight))
        training = fitting.Training(self, used, data, shown, schedule, int(verbose != 0))
        with self._using(used):
            return await training.run()

    async def evaluate(
        self,
        x: Any = None,
        y: Any = None,
        batch_size: int | None = None,
        verbose: int | str = 0,
        sample_weight: Any = None,
        steps: int | None = None,
        callbacks: Callback | Iterable[Callback] | None = None,
        return_dict: bool = False,
        session: Session | None = None,
    ) -> Any:
        """The mean loss and the metrics over all elements; arguments as for `fit`.

        Returns:
            A dict by name if `return_dict` is set; else the loss, or a list of the loss and the metrics.
        """
        self._check_compiled()
        by_name, shown = switch("return_dict", return_dict), CallbackList(told(callbacks, verbose, bars=False))
        used = self._session_for(session)
        batches = batches_of(x, y, sample_weight, batch_size, steps, self._are_unlabelled)
        shown.prepare(self, used, steps=batches.count)
        async with contextlib.aclosing(batches):
            with self._using(used):
                await shown.tell("on_test_begin", {})
                found = await fitting.evaluated(self, used, batches, shown)
                await shown.tell("on_test_end", found)
        return _results(found, by_name)

    async def predict(
        self,
        x: Any,
        batch_size: int | None = None,
        verbose: int | str = 0,
        steps: int | None = None,
        callbacks: Callback | Iterable[Callback] | None = None,
        session: Session | None = None,
    ) -> Any:
        """The outputs for all elements, in use, joined along the batch; arguments as for `fit`."""
        check_overrides(type(self), MODEL)
        shown, used = CallbackList(told(callbacks, verbose, bars=False)), self._session_for(session)
        batches = batches_of(x, None, None, batch_size, steps, self._are_inputs)
        shown.prepare(self, used, steps=batches.count)
        async with contextlib.aclosing(batches):
            with self._using(used):
                await shown.tell("on_predict_begin", {})
                found = await fitting.predicted(self, used, batches, shown)
                await shown.tell("on_predict_end", {})
        return found

    async def train_on_batch(
        self,
        x: Any,
        y: Any = None,
        sample_weight: Any = None,
        class_weight: Mapping[Any, Any] | None = None,
        return_dict: bool = False,
        session: Session | None = None,
    ) -> Any:
        """Take one step of training. Returns its loss and the metrics of the batch, as `evaluate` does."""
        given, weighting = batch_of((x, y, sample_weight)), self._weighting(class_weight)
        batch = given if weighting is None else weighting(given)
        return await self._on_batch(batch, True, return_dict, session)

    async def test_on_batch(
        self,
        x: Any,
        y: Any = None,
        sample_weight: Any = None,
        return_dict: bool = False,
        session: Session | None = None,
    ) -> Any:
        """The loss and the metrics of one batch, in use, as `evaluate` returns them."""
        return await self._on_batch(batch_of((x, y, sample_weight)), False, return_dict, session)

    async def _on_batch(self, given: Batch, training: bool, by_name: bool, session: Session | None) -> Any:
        self._check_compiled()
        used, batch = self._session_for(session), self.in_order(given)
        steps = await self.steps_for(batch, used)
        found = await fitting.measured_batch(used, steps.training if training else steps.evaluation, batch)
        return _results(found, switch("return_dict", by_name))

    async def predict_on_batch(self, x: Any, session: Session | None = None) -> Any:
        """The outputs for one batch, in use."""
        return await self.predict(x, batch_size=len(batch_of(x).inputs[0]), session=session)

    def changeable_rate(self) -> Variable:
        """The learning rate. ValueError unless the optimizer was given by its name."""
        rate = self.learning_rate
        if rate is None:
            raise ValueError("the learning rate can be changed if the optimizer is given by its name, as 'adam'")
        return rate

    async def set_learning_rate(self, rate: float, session: Session | None = None) -> None:
        """Change the learning rate. ValueError unless the optimizer was given by its name."""
        await self.assign_all([self.changeable_rate()], [at_least("rate", rate, 0)], self._session_for(session))

    async def _copy_to_replicas(self, session: Session) -> None:
        """Give the copies of weights on other devices the values of the weights."""
        replicas = None if self._optimizing is None else self._optimizing.replicas
        if replicas is not None and self._steps:
            if "copies" not in self._kept:
                with self.graph.as_default():
                    self._kept["copies"] = replicas.equalized(self.trainable_weights, slots=False)
            if self._kept["copies"] is not None:
                await session.run(self._kept["copies"])

    # Steps

    def _are_inputs(self, count: int) -> bool:
        """Whether a batch that is a list of that many arrays is the inputs, as far as these are known."""
        return self.inputs is None or len(nest.flatten(self.inputs)) == count

    def _are_unlabelled(self, count: int) -> bool:
        """The same where losses and metrics may need labels beside the inputs."""
        assert self._compiled is not None
        loss, _, *metrics = self._compiled
        needs_labels = any(each is not None for each in nest.flatten((loss, metrics)))
        return not needs_labels and self._are_inputs(count)

    def in_order(self, batch: Batch) -> Batch:
        """The batch with arrays and weights in the order of inputs and outputs, which may have been given by names.

        The model is composed for it, if its outputs are not known yet. ValueError if its parts are not those of the
        model.
        """
        self.compose(batch)
        return self.arrangement.of(batch)

    @property
    def arrangement(self) -> Arrangement:
        """The order and the precision in which it takes arrays, once its inputs and outputs are known."""
        if "arrangement" not in self._kept:
            self._kept["arrangement"] = Arrangement(self.inputs, self.outputs)
        found: Arrangement = self._kept["arrangement"]
        return found

    def _weighting(self, class_weight: Any) -> Callable[[Batch], Batch] | None:
        """What gives arrays the weights of classes; None for None. TypeError for what are none."""
        if class_weight is None:
            return None
        check_class_weight(class_weight)

        def weighted(batch: Batch) -> Batch:
            return with_class_weights(self.in_order(batch), class_weight, output_names(self.outputs))

        return weighted

    async def steps_for(self, batch: Batch, session: Session) -> Steps:
        """The operations for batches like this one, whose variables have values."""
        steps = self.steps_like(batch)
        await self.initialize(steps.variables, session)
        return steps

    def steps_like(self, batch: Batch) -> Steps:
        """The operations for batches like this one, which is in order, built if there are none yet."""
        check_labels(batch, self._chosen(), self.name)
        batch = batch if batch.labels else batch._replace(labels=[None] * len(self._chosen().losses))
        form = form_of(batch, self.outputs)
        if form not in self._steps:
            optimizing = self._optimize()
            with self.graph.as_default(), self.graph.transaction(), undone_on_failure():
                self._steps[form] = Steps(self, self._chosen(), form, optimizing)
        return self._steps[form]

    def compose(self, batch: Batch) -> None:
        """Call the model with placeholders like the inputs of this batch, if its outputs are not known yet.

        If an earlier batch was the model's first one, a batch of other sizes opens these sizes, where the model can be
        called so: steps of a sequence, for example, and not features.
        """
        if self.outputs is None:
            place = contextlib.nullcontext() if self._strategy is None else self._strategy.scope()
            with self.graph.as_default(), place, self.graph.transaction(), undone_on_failure():
                dtype = next((layer.dtype for layer in self.layers), self.dtype)
                inputs = [input_like(array, dtype) for array in batch.inputs]
                given = _in_structure(inputs, batch.input_keys)
                with making_only_weights(self):
                    outputs = self(given)
                if not nest.flatten(outputs):
                    raise TypeError(f"{self.name!r} has no outputs: its `call` returns {outputs!r}")
                self.inputs, self.outputs, self.is_open = given, outputs, True
        wanted = len(nest.flatten(self.inputs))
        if len(batch.inputs) != wanted:
            raise ValueError(f"{self.name!r} has {wanted} inputs, and {len(batch.inputs)} arrays were given")
        if self.is_open:
            self._open_for(batch)

    def _open_for(self, batch: Batch) -> None:
        """Call the model anew for inputs whose sizes are open where those of this batch differ, if it can be."""
        now = nest.flatten(self.inputs)
        found = [opened(tensor, array) for tensor, array in zip(now, batch.inputs, strict=True)]
        if None in found or all(shape is tensor.shape for shape, tensor in zip(found, now, strict=True)):
            return
        try:
            with self.graph.as_default(), self.graph.transaction(), undone_on_failure():
                fixed = [placeholder(x.dtype, array.shape) for x, array in zip(now, batch.inputs, strict=True)]
                self(nest.pack_sequence_as(self.inputs, fixed))  # a trial with all sizes known, which finds more errors
                inputs = [placeholder(x.dtype, shape, name="input") for x, shape in zip(now, found, strict=True)]
                given = nest.pack_sequence_as(self.inputs, inputs)
                self.inputs, self.outputs = given, self(given)
        except (TypeError, ValueError):
            return  # the run says which sizes do not fit
        self._forget_uses()

    async def prepare(self, session: Session) -> None:
        """Give the learning rate a value in the session, so that callbacks can read and change it."""
        rate = self._optimize().rate
        if rate is not None:
            await self.initialize([rate], session)

    def _optimize(self) -> Optimizing:
        self._check_compiled()
        if self._optimizing is None:
            with self.graph.as_default():
                self._optimizing = Optimizing(self._optimizer, self._strategy)
        return self._optimizing

    def _check_compiled(self) -> None:
        if self._compiled is None:
            raise RuntimeError(f"{self.name!r} is not compiled: call compile(optimizer=, loss=, metrics=) first")

    def _chosen(self) -> Settings:
        if self._settings is None:
            assert self._compiled is not None
            self._settings = settings_of(self.outputs, *self._compiled)
        return self._settings


def _results(found: Mapping[str, Any], by_name: bool) -> Any:
    """Measured values as users get them: a dict, or a list of the loss and the metrics, or the loss alone."""
    if by_name:
        return dict(found)
    return list(found.values()) if len(found) > 1 else found["loss"]


def _in_structure(inputs: list[Any], keys: Keys) -> Any:
    """The inputs as they were given: by keys, or one by itself, or several in a list."""
    if keys is not None and len(keys) == len(inputs):
        return dict(zip(keys, inputs, strict=True))
    return inputs[0] if len(inputs) == 1 else inputs
