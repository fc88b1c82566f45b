"""The loops of `fit`, `evaluate` and `predict`: a batch after the other through a callable of the session."""

import asyncio
import contextlib
import itertools
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from aioflow import errors
from aioflow.layers.backup import Backup, Position
from aioflow.layers.batch_line import BatchLine
from aioflow.layers.blocks import Block
from aioflow.layers.callback import Callback, CallbackList, Logs
from aioflow.layers.callbacks import BackupAndRestore, History
from aioflow.layers.computation import Computation
from aioflow.layers.fed import Batch
from aioflow.layers.fit_settings import Batches, Data, Schedule
from aioflow.layers.located import located, reraise
from aioflow.layers.steps import Phase, Phases, Steps
from aioflow.net.wire.failures import first_error
from aioflow.session import Session
from aioflow.session.training_report import ReportPace, TrainingReport
from aioflow.tensors import nest

if TYPE_CHECKING:
    from aioflow.layers.trainable import Trainable

_log: Final = logging.getLogger("aioflow.layers")


class Step(NamedTuple):
    """A step of training or of evaluation, on the device that it was built for.

    Attributes:
        call: does it for the values of a batch.
        feeds: gives the size of each batch of a block, and the values to feed for it.
    """

    call: Callable[..., Awaitable[Any]]
    feeds: Callable[[Block], Iterator[tuple[int, Sequence[Any]]]]


class Training:
    """One call of `fit`."""

    def __init__(
        self, model: "Trainable", session: Session, data: Data, callbacks: Iterable[Callback], schedule: Schedule,
        verbose: int,
    ) -> None:  # fmt: skip
        self._model: Final = model
        self._session: Final = session
        self._batches, self._validation = data
        self._history: Final = History()
        self._callbacks: Final = CallbackList([*callbacks, self._history])  # with what callbacks add to the logs
        self._schedule: Final = schedule
        self._steps: Steps | None = None
        self._running: _Running | None = None
        given = [each for each in self._callbacks.callbacks if isinstance(each, BackupAndRestore)]
        if len(given) > 1:
            raise ValueError(f"a training has one BackupAndRestore, not {len(given)}")
        self._backup: Final = Backup(given[0]) if given else None
        self._resumed: Position | None = None
        self._stack: Final = contextlib.ExitStack()
        self._telling: Final = asyncio.Lock()
        self._callbacks.prepare(
            model, session, epochs=schedule.epochs.stop, steps=data.training.count,
            validation_freq=schedule.validation_freq, verbose=verbose,
        )  # fmt: skip
        self._epoch_number = schedule.epochs.start
        self._reports: Final = ReportPace()
        self._trained = 0

    async def run(self) -> History:
        """Train to the last epoch, or until a callback stops it. Generators are closed however it ends."""
        async with contextlib.AsyncExitStack() as stack:
            stack.enter_context(self._stack)
            stack.push_async_callback(self._callbacks.aclose)
            for batches in (self._batches, self._validation):
                if batches is not None:
                    stack.push_async_callback(batches.aclose)
            await self._run()
        return self._history

    async def _run(self) -> None:
        tell, logs = self._callbacks.tell, Logs()
        self._model.stop_training = False
        await self._model.prepare(self._session)
        found = None if self._backup is None else await self._backup.position()
        epochs = self._schedule.epochs if found is None else await self._epochs_left(found)
        await tell("on_train_begin", logs)
        if found is not None:
            await self._callbacks.restore_states(found.callbacks)
        for epoch in epochs:
            await tell("on_epoch_begin", epoch, logs)
            self._epoch_number = epoch
            logs = await self._epoch(epoch)
            if self._session.listeners:
                await self._report_epoch(logs)
            await tell("on_epoch_end", epoch, logs)
            await self._back_up(epoch + 1)
            if self._model.stop_training:
                break
        await tell("on_train_end", logs)
        if self._backup is not None:
            await self._backup.end()

    async def _epochs_left(self, found: Position) -> range:
        """The epochs to train after those of a backup, whose learning rate hooks then find.

        InvalidArgumentError if the backup is not one of this training.
        """
        assert self._backup is not None
        self._check_fits(found)
        self._resumed = found
        if self._model.learning_rate is not None:
            await self._backup.restore_early(self._model.learning_rate, self._session)
        left = range(found.epoch, self._schedule.epochs.stop)
        if self._validation is not None and found.validation is not None:
            self._validation.go_on(found.validation, 0)
        if left:
            self._batches.go_on(found.data, found.batch)
        else:
            async with contextlib.aclosing(self._batches.epoch("the data")) as blocks:
                await self._begun((await anext(blocks)).elements)
        return left

    def _check_fits(self, found: Position) -> None:
        """Raise InvalidArgumentError if the batches have no such position, or it is before the first epoch."""
        first = self._schedule.epochs.start
        if found.epoch < first:
            raise errors.InvalidArgumentError(
                f"the backup goes on in epoch {found.epoch}, and initial_epoch is {first}: give `fit` the same "
                "arguments as before, or delete the backup"
            )
        count = self._batches.count
        same = self._batches.may_go_on(found.data)
        if self._validation is not None and found.validation is not None:
            same &= self._validation.may_go_on(found.validation)
        if not same or (count is not None and found.batch >= count):
            raise errors.InvalidArgumentError(
                "the backup is one of a training on other data, or in another order: give `fit` the same arguments as "
                "before, or delete the backup"
            )

    async def _back_up(self, epoch: int, batch: int = 0) -> None:
        """Save a backup from which training goes on at that batch."""
        if self._backup is not None and self._steps is not None and self._running is not None:
            sums = self._running.sums if batch else (0.0, 0)
            validation = None if self._validation is None else self._validation.position()
            states = await self._callbacks.backup_states()
            position = Position(epoch, batch, *sums, self._batches.position(), validation, states)
            await self._backup.save(self._steps.variables, position, self._session)

    async def _epoch(self, epoch: int) -> Logs:
        number = 0 if self._resumed is None else self._resumed.batch
        async with contextlib.aclosing(self._batches.epoch(f"epoch {epoch + 1}")) as blocks:
            first = await anext(blocks)  # an epoch has at least one batch
            with located(first.place):
                running = await self._begun(first.elements)
            line = BatchLine(blocks, first, number, self._next_backup, lambda: self._model.stop_training)
            while not line.ended:
                await self._work(self._running or running, line)
                if not line.ended:
                    await self._back_up(epoch, line.number)
                    line.resume()
        logs = await (self._running or running).measured()
        if self._validation is not None and self._schedule.validates(epoch):
            await self._callbacks.tell("on_test_begin", logs)
            what = f"the validation of epoch {epoch + 1}"
            found = await evaluated(self._model, self._session, self._validation, self._callbacks, what)
            logs.update({f"val_{name}": value for name, value in found.items()})
            await self._callbacks.tell("on_test_end", logs)
        return logs

    def _next_backup(self, number: int) -> int | None:
        return None if self._backup is None else self._backup.next_due(number)

    async def _work(self, running: "_Running", line: BatchLine) -> None:
        """Train with batches until the line ends or pauses; with several steps, by as many workers."""
        if len(running.steps) == 1:
            await self._train(running, running.steps[0], line)
            return
        try:
            async with asyncio.TaskGroup() as group:
                for step in running.steps:
                    group.create_task(self._train(running, step, line))
        except BaseExceptionGroup as several:
            raise first_error(several) from None

    async def _train(self, running: "_Running", step: Step, line: BatchLine) -> None:
        """Train with one block after the other; with one batch after the other if several workers share them."""
        alone = len(running.steps) == 1
        while (taken := await line.take(None if alone else 1)) is not None:
            number, block = taken
            with located(block.place):
                if alone and running.opens_for(block.elements):
                    running = await self._reopened(running, block.elements)
                    (step,) = running.steps
            await self._train_on(running, step, number, block)

    async def _train_on(self, running: "_Running", step: Step, number: int, block: Block) -> None:
        """Train with the batches of a block, until a callback stops it. Only one worker at a time tells callbacks."""
        told = self._callbacks.hears("on_train_batch_begin", "on_train_batch_end")
        model, listeners, call = self._model, self._session.listeners, step.call
        for each, (size, values) in enumerate(step.feeds(block), number):
            if each > number and model.stop_training:
                break
            if told:
                async with self._telling:
                    await self._callbacks.tell("on_train_batch_begin", each, {})
            try:
                loss, _ = await call(*values)
            except (TypeError, ValueError) as error:
                reraise(error, block.place)
            running.add(float(loss), size)
            self._trained += 1
            if listeners and self._reports.is_due:
                self._reports.told()
                self._report(each + 1, {"loss": running.loss})
            if told:
                async with self._telling:
                    await self._callbacks.tell("on_train_batch_end", each, {"loss": running.loss})

    def _report(self, batches: int, logs: Logs, ends_epoch: bool = False) -> None:
        """Report to monitors of the session how many batches of the epoch are done."""
        count = self._batches.count
        step = self._trained if count is None else self._epoch_number * count + batches
        steps = None if count is None else self._schedule.epochs.stop * count
        values = {name: value for name, value in logs.items() if isinstance(value, float)}
        self._session.tell(
            TrainingReport(step, steps, self._epoch_number, self._schedule.epochs.stop, ends_epoch, values)
        )

    async def _report_epoch(self, logs: Logs) -> None:
        """The same after an epoch, with the learning rate."""
        rate = self._model.learning_rate
        found = {} if rate is None else {"learning_rate": float(await self._session.run(rate))}
        self._report(self._batches.count or 0, logs | found, ends_epoch=True)

    async def _begun(self, batch: Batch) -> "_Running":
        """An epoch with batches like this one, whose variables have values."""
        steps = self._model.steps_like(self._model.in_order(batch))
        if self._running is None or steps is not self._steps:
            await self._model.initialize(steps.variables, self._session)
            self._steps = steps
            self._running = _Running(self._model, self._session, self._stack.enter_context(steps.training.taken()))
            if self._model.trainable and not self._model.trainable_weights:
                _log.warning("%r has no weights to train: fit changes none", self._model.name)
        resumed, self._resumed = self._resumed, None
        if self._backup is not None and resumed is not None:
            kept = None if resumed.batch else self._model.learning_rate  # hooks of the epoch have set it
            await self._backup.restore(steps.variables, self._session, kept)
        if resumed is not None and resumed.batch:
            await self._running.go_on(resumed.total, resumed.elements)
        else:
            await self._running.begin()
        return self._running

    async def _reopened(self, old: "_Running", batch: Batch) -> "_Running":
        """The epoch with steps for batches of other sizes, which go on with its sums and metrics."""
        self._steps = await self._model.steps_for(self._model.in_order(batch), self._session)
        phase = self._stack.enter_context(self._steps.training.taken())
        self._running = _Running(self._model, self._session, phase)
        await self._running.take_over(old)
        return self._running


async def evaluated(
    model: "Trainable", session: Session, batches: Batches, callbacks: CallbackList, what: str = "the data"
) -> Logs:
    """The mean loss and the metrics over all batches, which errors call `what`, and of which the callbacks are told."""
    running, numbers = None, itertools.count()
    with contextlib.ExitStack() as stack:
        async with contextlib.aclosing(batches.epoch(what)) as blocks:
            async for block in blocks:
                with located(block.place):
                    if running is None or running.opens_for(block.elements):
                        old, steps = running, await model.steps_for(model.in_order(block.elements), session)
                        running = _Running(model, session, stack.enter_context(steps.evaluation.taken()))
                        await (running.begin() if old is None else running.take_over(old))
                (step,) = running.steps
                for size, values in step.feeds(block):
                    number = next(numbers)
                    await callbacks.tell("on_test_batch_begin", number, {})
                    with located(block.place):
                        loss, _ = await step.call(*values)
                    running.add(float(loss), size)
                    await callbacks.tell("on_test_batch_end", number, {"loss": running.loss})
        assert running is not None
        return await running.measured()


async def measured_batch(session: Session, phases: Phases, batch: Batch) -> Logs:
    """The loss and the metrics of one batch, with which it trains if the phases are those of training."""
    with phases.taken() as phase:
        if phase.begin is not None:
            await session.run(phase.begin)
        computation, metrics = phase.computations[0], dict(phase.metrics)
        loss, _ = await session.run([computation.loss, phase.updates[0]], computation.feeding(batch))
        values = await session.run(metrics) if metrics else {}
        return {"loss": float(loss), **{name: _number(value) for name, value in values.items()}}


async def predicted(model: "Trainable", session: Session, batches: Batches, callbacks: CallbackList) -> Any:
    """The outputs for all batches, of which the callbacks are told, joined."""
    step, inputs, found = None, None, list[Any]()
    async with contextlib.aclosing(batches.epoch("the data")) as blocks:
        async for given in blocks:
            with located(given.place):
                block = given._replace(elements=model.in_order(given.elements.without_labels()))
            if step is None or inputs is not model.inputs:  # a batch of other sizes gives the model other inputs
                await model.initialize(model.weights, session)
                inputs = model.inputs
                step = session.make_callable(nest.flatten(model.outputs), feeds=nest.flatten(model.inputs))
            for batch in block.batches():
                number = len(found)
                await callbacks.tell("on_predict_batch_begin", number, {})
                with located(given.place):
                    found.append(await step(*batch.inputs))
                await callbacks.tell("on_predict_batch_end", number, {})
    joined = [np.concatenate(parts) for parts in zip(*found, strict=True)]
    return nest.pack_sequence_as(model.outputs, joined)


class _Running:
    """An epoch of training or of evaluation: its steps, the mean of their losses by the sizes of batches, its metrics.

    Attributes:
        steps: its step; in asynchronous training one for each worker.
    """

    def __init__(self, model: "Trainable", session: Session, phase: Phase) -> None:
        self._model: Final = model
        self._inputs: Final = model.inputs
        self._session: Final = session
        self._phase: Final = phase
        self.steps: Final[Sequence[Step]] = [
            Step(session.make_callable([each.loss, update], feeds=each.feeds), _feeds(model, each))
            for each, update in zip(phase.computations, phase.updates, strict=True)
        ]
        self._total = 0.0
        self._count = 0

    async def begin(self) -> None:
        """Begin an epoch."""
        self._total, self._count = 0.0, 0
        if self._phase.begin is not None:
            await self._session.run(self._phase.begin)

    def opens_for(self, batch: Batch) -> bool:
        """Whether the model gets inputs of other sizes for this batch, as it does if its first batch gave them."""
        if self._model.is_open:
            self._model.compose(batch)
        return self._model.inputs is not self._inputs

    async def take_over(self, old: "_Running") -> None:
        """Begin with the sums and the metrics of an epoch that had other steps."""
        await self.begin()
        self._total, self._count = old.sums
        if old._phase.state:
            values = await self._session.run(old._phase.state)
            await self._model.assign_all(self._phase.state, values, self._session)

    def add(self, loss: float, size: int) -> None:
        """Count the loss of a batch of that size."""
        self._total += loss * size
        self._count += size

    @property
    def sums(self) -> tuple[float, int]:
        """The sum of the losses of elements, and the number of these."""
        return self._total, self._count

    async def go_on(self, total: float, count: int) -> None:
        """Go on with these sums, after variables were restored: copies of weights become equal to them."""
        self._total, self._count = total, count
        if self._phase.equalize is not None:
            await self._session.run(self._phase.equalize)

    @property
    def loss(self) -> float:
        """The mean loss so far."""
        return self._total / self._count

    async def measured(self) -> Logs:
        """The mean loss and the metrics."""
        metrics = dict(self._phase.metrics)
        values = await self._session.run(metrics) if metrics else {}
        return {"loss": self.loss, **{name: _number(value) for name, value in values.items()}}


def _feeds(model: "Trainable", computation: Computation) -> Callable[[Block], Iterator[tuple[int, Sequence[Any]]]]:
    """What gives the values to feed for the batches of a block, whose arrays may be given by names."""
    arranged = model.arrangement.of

    def feeds(block: Block) -> Iterator[tuple[int, Sequence[Any]]]:
        with located(block.place):
            elements = arranged(block.elements)
        return computation.feeds_of(block._replace(elements=elements))

    return feeds


def _number(value: Any) -> Any:
    return float(value) if np.ndim(value) == 0 else value
