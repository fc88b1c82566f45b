"""What all callbacks of `fit` share: hooks that are told when training, epochs and batches begin and end."""

import contextlib
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from aioflow.layers.overrides import CALLBACK, check_overrides

if TYPE_CHECKING:
    from aioflow.layers.trainable import Trainable
    from aioflow.session import Session

Logs = dict[str, Any]
"""Losses and metrics by name; those of validation begin with `val_`."""


class Callback:
    """Does something while a model trains. A subclass overrides methods, as functions or coroutine functions.

    Attributes:
        model: the model that trains. Its `stop_training` set to True ends training after the epoch.
        session: the session that it trains in.
        params: the numbers `epochs`, `steps` of an epoch, None if it is unknown, `validation_freq` and `verbose`.

    Examples:
        >>> class Count(af.callbacks.Callback):
        ...     def on_epoch_end(self, epoch, logs=None):
        ...         print("epoch", epoch)
        >>> model = af.Sequential([af.layers.Input([1]), af.layers.Dense(1)])
        >>> model.compile("sgd", "mse")
        >>> history = await model.fit(np.ones([4, 1]), np.ones([4, 1]), epochs=2, verbose=0, callbacks=[Count()])
        epoch 0
        epoch 1
    """

    model: "Trainable"
    session: "Session"
    params: Mapping[str, Any]

    def __init_subclass__(cls, **options: Any) -> None:
        """TypeError for a hook by one of Keras' older names, which is never called."""
        super().__init_subclass__(**options)
        check_overrides(cls, CALLBACK)

    def backup_state(self) -> Any:
        """What `BackupAndRestore` keeps of it: plain data, and arrays of numbers in these; None for nothing."""

    def restore_state(self, state: Any) -> Any:
        """Go on from what `backup_state` gave, in a training that goes on from a backup, after `on_train_begin`."""

    async def aclose(self) -> None:
        """Release what it holds, after training, however that ended."""

    def on_train_begin(self, logs: Logs) -> Any:
        """Before the first epoch."""

    def on_train_end(self, logs: Logs) -> Any:
        """After the last epoch."""

    def on_epoch_begin(self, epoch: int, logs: Logs) -> Any:
        """Before an epoch; epochs are counted from 0."""

    def on_epoch_end(self, epoch: int, logs: Logs) -> Any:
        """After an epoch and its validation."""

    def on_train_batch_begin(self, batch: int, logs: Logs) -> Any:
        """Before a step of training."""

    def on_train_batch_end(self, batch: int, logs: Logs) -> Any:
        """After a step of training. `logs` has the mean loss of the epoch so far."""

    def on_test_begin(self, logs: Logs) -> Any:
        """Before an evaluation."""

    def on_test_end(self, logs: Logs) -> Any:
        """After an evaluation."""

    def on_test_batch_begin(self, batch: int, logs: Logs) -> Any:
        """Before a step of an evaluation."""

    def on_test_batch_end(self, batch: int, logs: Logs) -> Any:
        """After a step of an evaluation. `logs` has the mean loss so far."""

    def on_predict_begin(self, logs: Logs) -> Any:
        """Before a prediction."""

    def on_predict_end(self, logs: Logs) -> Any:
        """After a prediction."""

    def on_predict_batch_begin(self, batch: int, logs: Logs) -> Any:
        """Before a step of a prediction."""

    def on_predict_batch_end(self, batch: int, logs: Logs) -> Any:
        """After a step of a prediction."""


class CallbackList:
    """Callbacks that are told one after the other."""

    def __init__(self, callbacks: Iterable[Callback]) -> None:
        """TypeError for something that is no callback."""
        self.callbacks: Final = list(callbacks)
        for each in self.callbacks:
            if not isinstance(each, Callback):
                raise TypeError(f"a callback is an af.callbacks.Callback, not {type(each).__name__}")
        self._hooks: Final[dict[str, list[Callable[..., Any]]]] = {}

    def prepare(self, model: "Trainable", session: "Session", **params: Any) -> None:
        """Give the callbacks what they are told about: a model, its session, and numbers by name."""
        for each in self.callbacks:
            each.model, each.session, each.params = model, session, params

    async def aclose(self) -> None:
        """Let all callbacks release what they hold. An error of one reaches the caller after all others have."""
        async with contextlib.AsyncExitStack() as stack:
            for each in self.callbacks:
                stack.push_async_callback(each.aclose)

    async def backup_states(self) -> dict[str, list[Any]]:
        """The states of those that have one, by the names of their classes, in order."""
        found: dict[str, list[Any]] = {}
        for each in self.callbacks:
            state = await _result(each.backup_state())
            if state is not None:
                found.setdefault(type(each).__name__, []).append(state)
        return found

    async def restore_states(self, states: Mapping[str, Iterable[Any]]) -> None:
        """Let them go on from these states; those of a class in order. One that has none there begins anew."""
        left = {name: iter(each) for name, each in states.items()}
        for each in self.callbacks:
            state = next(left.get(type(each).__name__, iter(())), None)
            if state is not None:
                await _result(each.restore_state(state))

    def hears(self, *hooks: str) -> bool:
        """Whether a callback defines one of these hooks."""
        return any(self._defined(hook) for hook in hooks)

    async def tell(self, hook: str, *arguments: Any) -> None:
        """Call a hook of all callbacks that define it."""
        for each in self._defined(hook):
            await _result(each(*arguments))

    def _defined(self, hook: str) -> list[Callable[..., Any]]:
        hooks = self._hooks.get(hook)
        if hooks is None:
            own = [getattr(each, hook) for each in self.callbacks]
            hooks = [each for each in own if getattr(each, "__func__", None) is not getattr(Callback, hook)]
            self._hooks[hook] = hooks
        return hooks


async def _result(given: Any) -> Any:
    """What a method of a callback returns, after a coroutine has ended."""
    return await given if inspect.isawaitable(given) else given
