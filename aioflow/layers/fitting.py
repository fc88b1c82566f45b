"""The loops of `fit`, `evaluate` and `predict`: a batch after the other through a callable of the session."""

import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from aioflow import errors
from aioflow.layers.batches import ArrayBatches, GivenBatches
from aioflow.layers.callbacks import Callback, CallbackList, History, Logs
from aioflow.layers.steps import Batch, Phase, Steps
from aioflow.session import Session
from aioflow.tensors import nest

if TYPE_CHECKING:
    from aioflow.layers.trainable import Trainable

Batches = ArrayBatches | GivenBatches
Step = Callable[..., Awaitable[Any]]


class Training:
    """One call of `fit`."""

    def __init__(
        self, model: "Trainable", session: Session, batches: Batches, validation: Batches | None,
        callbacks: Iterable[Callback], epochs: int, initial_epoch: int, verbose: int,
    ) -> None:  # fmt: skip
        self._model: Final = model
        self._session: Final = session
        self._batches: Final = batches
        self._validation: Final = validation
        self._history: Final = History()
        self._callbacks: Final = CallbackList([self._history, *callbacks])
        self._epochs: Final = range(initial_epoch, epochs)
        params = {"epochs": epochs, "steps": batches.count, "verbose": verbose}
        for each in self._callbacks.callbacks:
            each.model, each.session, each.params = model, session, params

    async def run(self) -> History:
        """Train to the last epoch, or until a callback stops it. Generators are closed however it ends."""
        async with contextlib.AsyncExitStack() as stack:
            for batches in (self._batches, self._validation):
                if batches is not None:
                    stack.push_async_callback(batches.close)
            await self._run()
        return self._history

    async def _run(self) -> None:
        tell, logs = self._callbacks.tell, Logs()
        self._model.stop_training = False
        await self._model.prepare(self._session)
        await tell("on_train_begin", logs)
        for epoch in self._epochs:
            await tell("on_epoch_begin", epoch, logs)
            logs = await self._epoch(epoch)
            await tell("on_epoch_end", epoch, logs)
            if self._model.stop_training:
                break
        await tell("on_train_end", logs)

    async def _epoch(self, epoch: int) -> Logs:
        mean, tell = _Mean(), self._callbacks.tell
        step: Step | None = None
        steps: Steps | None = None
        number = 0
        async with contextlib.aclosing(_counted(self._batches, f"epoch {epoch + 1}")) as batches:
            async for batch in batches:
                if step is None or steps is None:
                    steps = await self._model.steps_for(batch, self._session)
                    await self._session.run(steps.training.reset)
                    step = _callable(self._session, steps, steps.training)
                await tell("on_train_batch_begin", number, {})
                loss, _ = await step(*batch.values)
                mean.add(float(loss), batch.size)
                await tell("on_train_batch_end", number, {"loss": mean.value})
                number += 1
                if self._model.stop_training:
                    break
        assert steps is not None  # `_counted` gives at least one batch
        logs = {"loss": mean.value, **await _measured(self._session, steps.training)}
        if self._validation is not None:
            await tell("on_test_begin", logs)
            found = await evaluated(self._model, self._session, self._validation)
            logs.update({f"val_{name}": value for name, value in found.items()})
            await tell("on_test_end", logs)
        return logs


async def evaluated(model: "Trainable", session: Session, batches: Batches) -> Logs:
    """The mean loss and the metrics over all batches."""
    mean, step, steps = _Mean(), None, None
    async with contextlib.aclosing(_counted(batches, "the data")) as given:
        async for batch in given:
            if step is None or steps is None:
                steps = await model.steps_for(batch, session)
                await session.run(steps.evaluation.reset)
                step = _callable(session, steps, steps.evaluation)
            loss, _ = await step(*batch.values)
            mean.add(float(loss), batch.size)
    assert steps is not None
    return {"loss": mean.value, **await _measured(session, steps.evaluation)}


async def predicted(model: "Trainable", session: Session, batches: Batches) -> Any:
    """The outputs for all batches, joined."""
    step: Step | None = None
    found = []
    async with contextlib.aclosing(_counted(batches, "the data")) as given:
        async for batch in given:
            if step is None:
                await model.made_ready(batch, session)
                step = session.make_callable(nest.flatten(model.outputs), feeds=nest.flatten(model.inputs))
            found.append(await step(*batch.inputs))
    joined = [np.concatenate(parts) for parts in zip(*found, strict=True)]
    return nest.pack_sequence_as(model.outputs, joined)


def _callable(session: Session, steps: Steps, phase: Phase) -> Step:
    return session.make_callable([phase.loss, phase.update], feeds=steps.batch.values)


async def _measured(session: Session, phase: Phase) -> Logs:
    values = await session.run(dict(phase.metrics)) if phase.metrics else {}
    return {name: float(value) if np.ndim(value) == 0 else value for name, value in values.items()}


class _Mean:
    """The mean of the losses of batches, by their sizes."""

    def __init__(self) -> None:
        self._total = 0.0
        self._count = 0

    def add(self, loss: float, size: int) -> None:
        self._total += loss * size
        self._count += size

    @property
    def value(self) -> float:
        return self._total / self._count


async def _counted(batches: Batches, what: str) -> AsyncGenerator[Batch, None]:
    """The batches. OutOfRangeError if there are none, or fewer than were asked for; ValueError if one is empty."""
    count = 0
    async with contextlib.aclosing(aiter(batches)) as given:
        async for batch in given:
            count += 1
            if not all(np.shape(array)[:1] > (0,) for array in batch.inputs):
                raise ValueError(f"{what}: batch {count} has no elements: a batch is arrays with one row or more")
            yield batch
    if not count or (batches.count is not None and count < batches.count):
        wanted = f", and {batches.count} were asked for" if batches.count else ""
        raise errors.OutOfRangeError(
            f"{what} has {count} batches{wanted}: a generator gives its elements once; give a dataset, or fewer steps"
        )
