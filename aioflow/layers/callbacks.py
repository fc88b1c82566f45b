"""`af.callbacks`: what `fit` may do besides training. A hook may be a coroutine function."""

import inspect
import math
from collections.abc import Callable
from typing import Any, Final, Literal

from aioflow.files.filesystem import Path, as_name
from aioflow.layers.averaged_weights import SwapEMAWeights
from aioflow.layers.callback import Callback, Logs
from aioflow.layers.live_summaries import LiveSummaries
from aioflow.layers.log_callbacks import CSVLogger, TensorBoard
from aioflow.layers.numbers import at_least, number, switch, whole
from aioflow.lazy import Face
from aioflow.tensors.recursion import safe_repr


class History(Callback):
    """What `fit` returns: the logs of all epochs.

    Attributes:
        history: the values of each name in logs, one for each epoch.
        epoch: the numbers of the epochs.

    Examples:
        >>> model = af.Sequential([af.layers.Input([1]), af.layers.Dense(1)])
        >>> model.compile("sgd", "mse")
        >>> history = await model.fit(np.ones([4, 1]), np.ones([4, 1]), epochs=2, verbose=0)
        >>> history.epoch, list(history.history)
        ([0, 1], ['loss'])
    """

    def __init__(self) -> None:
        self.history: Final[dict[str, list[Any]]] = {}
        self.epoch: Final[list[int]] = []

    def on_epoch_end(self, epoch: int, logs: Logs) -> None:
        """Keep the logs."""
        self.epoch.append(epoch)
        for name, value in logs.items():
            self.history.setdefault(name, []).append(value)

    def _repr_html_(self) -> str:
        from aioflow.notebook.trained import history_html

        return history_html(self.epoch, self.history)


class LambdaCallback(Callback):
    """Functions as hooks, given by the hooks' names.

    Examples:
        >>> log = af.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: print("epoch", epoch))
        >>> model = af.Sequential([af.layers.Input([1]), af.layers.Dense(1)])
        >>> model.compile("sgd", "mse")
        >>> history = await model.fit(np.ones([4, 1]), np.ones([4, 1]), epochs=2, verbose=0, callbacks=[log])
        epoch 0
        epoch 1
    """

    def __init__(self, **hooks: Callable[..., Any]) -> None:
        """TypeError for a name that no hook has."""
        for name, function in hooks.items():
            if not name.startswith("on_") or not hasattr(Callback, name):
                raise TypeError(f"there is no hook {name!r}")
            if not callable(function):
                raise TypeError(f"{name} is a function, not {safe_repr(function)}")
            setattr(self, name, function)


Mode = Literal["auto", "min", "max"]


_GROWING: Final = ("acc", "auc", "precision", "recall")
"""Values with such names are the better the larger they are."""


class _Watching(Callback):
    """Watches whether a value in the logs gets better."""

    def __init__(self, monitor: str = "val_loss", mode: Mode = "auto", min_delta: float = 0.0) -> None:
        if mode not in ("auto", "min", "max"):
            raise ValueError(f"mode is 'auto', 'min' or 'max', not {safe_repr(mode)}")
        if not isinstance(monitor, str):
            raise TypeError(f"monitor is the name of a value in the logs, not {safe_repr(monitor)}")
        grows = mode == "max" or (mode == "auto" and any(part in monitor for part in _GROWING))
        self.monitor: Final = monitor
        self._sign: Final = -1.0 if grows else 1.0
        self._min_delta: Final = abs(number("min_delta", min_delta))
        self.best = math.inf * self._sign

    def _skips(self, epoch: int) -> bool:
        """Whether the epoch ends without the validation that gives the value."""
        return self.monitor.startswith("val_") and bool((epoch + 1) % self.params["validation_freq"])

    def _value(self, logs: Logs) -> float:
        if self.monitor not in logs:
            raise ValueError(f"the logs have no {self.monitor!r}; they have {', '.join(logs)}")
        return float(logs[self.monitor])

    def _is_better(self, value: float) -> bool:
        """Whether it is the best value so far, which it then is from here on."""
        better = (
            (self.best - value) * self._sign > self._min_delta if math.isfinite(self.best) else not math.isnan(value)
        )
        if better:
            self.best = value
        return better


class EarlyStopping(_Watching):
    """Ends training when a value has not become better for `patience` epochs.

    Args:
        monitor: the name of the value.
        min_delta: by how much it must become better.
        patience: the number of epochs.
        verbose: whether it writes when it ends training, 0 or 1.
        mode: whether "min" or "max" is better; "auto" judges by the name.
        baseline: a value that must be beaten from the beginning.
        restore_best_weights: whether the model gets the weights of the best epoch at the end, even below the baseline.
        start_from_epoch: the first epoch that counts.

    Examples:
        >>> stop = af.callbacks.EarlyStopping(monitor="loss", patience=1)
        >>> model = af.Sequential([af.layers.Input([1]), af.layers.Dense(1)])
        >>> model.compile(af.train.GradientDescentOptimizer(0.0), "mse")
        >>> history = await model.fit(np.ones([4, 1]), np.ones([4, 1]), epochs=9, verbose=0, callbacks=[stop])
        >>> len(history.epoch)
        2
    """

    def __init__(
        self, monitor: str = "val_loss", min_delta: float = 0.0, patience: int = 0, verbose: int = 0,
        mode: Mode = "auto", baseline: float | None = None, restore_best_weights: bool = False,
        start_from_epoch: int = 0,
    ) -> None:  # fmt: skip
        super().__init__(monitor, mode, min_delta)
        self.patience: Final = whole("patience", patience, 0)
        self.baseline: Final = None if baseline is None else number("baseline", baseline)
        self.restore_best_weights: Final = switch("restore_best_weights", restore_best_weights)
        self.start_from_epoch: Final = whole("start_from_epoch", start_from_epoch, 0)
        self.verbose: Final = verbose
        self.stopped_epoch: int | None = None
        self._waited = 0
        self._weights: list[Any] | None = None

    def on_train_begin(self, logs: Logs) -> None:
        """Begin anew."""
        self.best: float = math.inf * self._sign
        self._waited, self._weights, self.stopped_epoch = 0, None, None

    async def on_epoch_end(self, epoch: int, logs: Logs) -> None:
        """Stop, or remember the weights. ValueError if the logs lack the value."""
        if self._skips(epoch):
            return
        value = self._value(logs)
        if epoch < self.start_from_epoch:
            return
        better = self._is_better(value)
        if self.restore_best_weights and (better or self._weights is None):
            self._weights = await self.model.get_weights(session=self.session)
        self._waited += 1
        if better:
            if self.baseline is None or (self.baseline - value) * self._sign > self._min_delta:
                self._waited = 0
            return
        if self._waited >= max(1, self.patience):
            self.stopped_epoch, self.model.stop_training = epoch, True
            _say(self.verbose, f"epoch {epoch + 1}: training ends, for {self.monitor} has not become better")

    def backup_state(self) -> Any:
        """The best value and weights, and the number of epochs since."""
        return {"best": self.best, "waited": self._waited, "weights": self._weights}

    def restore_state(self, state: Any) -> None:
        """Go on with them."""
        self.best, self._waited, self._weights = state["best"], state["waited"], state["weights"]

    async def on_train_end(self, logs: Logs) -> None:
        """Give the best weights back."""
        if self._weights is not None:
            await self.model.set_weights(self._weights, session=self.session)


class ReduceLROnPlateau(_Watching):
    """Multiplies the learning rate by `factor` when a value has not become better for `patience` epochs.

    The optimizer must be given by its name. The rate does not fall below `min_lr`, and the count begins anew `cooldown`
    epochs after a change.

    Examples:
        >>> reduce = af.callbacks.ReduceLROnPlateau(monitor="loss", factor=0.5, patience=2)
        >>> model = af.Sequential([af.layers.Input([1]), af.layers.Dense(1)])
        >>> model.compile("sgd", "mse")
        >>> history = await model.fit(np.ones([4, 1]), np.ones([4, 1]), epochs=2, verbose=0, callbacks=[reduce])
    """

    def __init__(
        self, monitor: str = "val_loss", factor: float = 0.1, patience: int = 10, verbose: int = 0,
        mode: Mode = "auto", min_delta: float = 1e-4, cooldown: int = 0, min_lr: float = 0.0,
    ) -> None:  # fmt: skip
        """ValueError for a factor of 1 or more."""
        super().__init__(monitor, mode, min_delta)
        self.factor: Final = number("factor", factor)
        if not 0 < self.factor < 1:
            raise ValueError(f"factor lies between 0 and 1, not {factor}")
        self.patience: Final = whole("patience", patience, 0)
        self.cooldown: Final = whole("cooldown", cooldown, 0)
        self.min_lr: Final = at_least("min_lr", min_lr, 0)
        self.verbose: Final = verbose
        self._waited = self._cooling = 0

    def on_train_begin(self, logs: Logs) -> None:
        """Begin anew."""
        self.best: float = math.inf * self._sign
        self._waited = self._cooling = 0

    def backup_state(self) -> Any:
        """The best value, and the numbers of epochs since and to wait."""
        return {"best": self.best, "waited": self._waited, "cooling": self._cooling}

    def restore_state(self, state: Any) -> None:
        """Go on with them."""
        self.best, self._waited, self._cooling = state["best"], state["waited"], state["cooling"]

    async def on_epoch_end(self, epoch: int, logs: Logs) -> None:
        """Log the rate, and change it if the value does not get better. ValueError if the logs lack the value."""
        now = logs["learning_rate"] = float(await self.session.run(self.model.changeable_rate()))
        if self._skips(epoch):
            return
        better = self._is_better(self._value(logs))
        self._cooling = max(0, self._cooling - 1)
        self._waited = 0 if better or self._cooling else self._waited + 1
        if self._waited < max(1, self.patience):
            return
        if now > self.min_lr:
            self._waited, self._cooling = 0, self.cooldown
            rate = max(now * self.factor, self.min_lr)
            await self.model.set_learning_rate(rate, self.session)
            _say(self.verbose, f"epoch {epoch + 1}: the learning rate becomes {rate:g}")


class LearningRateScheduler(Callback):
    """Sets the learning rate before each epoch to schedule(epoch, rate). The optimizer must be given by its name.

    Examples:
        >>> halve = af.callbacks.LearningRateScheduler(lambda epoch, rate: rate / 2)
        >>> model = af.Sequential([af.layers.Input([1]), af.layers.Dense(1)])
        >>> model.compile("sgd", "mse")
        >>> history = await model.fit(np.ones([4, 1]), np.ones([4, 1]), epochs=2, verbose=0, callbacks=[halve])
    """

    def __init__(self, schedule: Callable[..., float], verbose: int = 0) -> None:
        """TypeError for something that is no function."""
        if not callable(schedule):
            raise TypeError(f"schedule is a function of the epoch and the rate, not {safe_repr(schedule)}")
        self.verbose: Final = verbose
        self.schedule: Final = schedule
        self._takes_rate: Final = len(inspect.signature(schedule).parameters) > 1

    async def on_epoch_begin(self, epoch: int, logs: Logs) -> None:
        """Set the rate."""
        rate = self.model.changeable_rate()
        now = (float(await self.session.run(rate)),) if self._takes_rate else ()
        new = number("the learning rate that the schedule gives", self.schedule(epoch, *now))
        await self.model.set_learning_rate(new, self.session)
        _say(self.verbose, f"epoch {epoch + 1}: the learning rate becomes {new:g}")

    async def on_epoch_end(self, epoch: int, logs: Logs) -> None:
        """Log the rate of the epoch."""
        logs["learning_rate"] = float(await self.session.run(self.model.changeable_rate()))


class TerminateOnNaN(Callback):
    """Ends training when the loss is not a finite number.

    Examples:
        >>> model = af.Sequential([af.layers.Input([1]), af.layers.Dense(1)])
        >>> model.compile("sgd", "mse")
        >>> x, y = np.full([4, 1], np.nan), np.ones([4, 1])
        >>> history = await model.fit(x, y, epochs=5, verbose=0, callbacks=[af.callbacks.TerminateOnNaN()])
        >>> len(history.epoch) < 5
        True
    """

    def __init__(self, raise_error: bool = False) -> None:
        """With `raise_error`, `fit` fails by RuntimeError instead."""
        self.raise_error: Final = switch("raise_error", raise_error)

    def on_train_batch_end(self, batch: int, logs: Logs) -> None:
        """Look at the loss."""
        if math.isfinite(logs["loss"]):
            return
        if self.raise_error:
            raise RuntimeError(f"the loss of batch {batch + 1} is {logs['loss']}")
        self.model.stop_training = True


class ModelCheckpoint(_Watching):
    """Saves the weights while a model trains.

    Args:
        filepath: where to; `{epoch}` and names in the logs are replaced, as in "weights-{epoch:02d}-{val_loss:.2f}".
        monitor: the value that decides which weights are the best.
        verbose: whether it writes where it has saved, 0 or 1.
        save_best_only: whether weights are saved only if the value has become better.
        save_weights_only: True; a model is its program, and what it has learned are its weights.
        mode: whether "min" or "max" is better; "auto" judges by the name.
        save_freq: "epoch", or the number of batches between two savings; logs have only the loss then.
        initial_value_threshold: the value that the first weights must beat, with `save_best_only`.

    Examples:
        >>> model = af.Sequential([af.layers.Dense(1)])
        >>> model.compile(loss="mse")
        >>> x = np.ones((4, 2), np.float32)
        >>> saving = af.callbacks.ModelCheckpoint("best.safetensors", monitor="loss", save_best_only=True)
        >>> _ = await model.fit(x, x[:, :1], verbose=0, callbacks=[saving])
        >>> af.gfile.Glob("best*")
        ['best.safetensors']
    """

    def __init__(
        self, filepath: Path, monitor: str = "val_loss", verbose: int = 0, save_best_only: bool = False,
        save_weights_only: bool = True, mode: Mode = "auto", save_freq: int | Literal["epoch"] = "epoch",
        initial_value_threshold: float | None = None,
    ) -> None:  # fmt: skip
        """ValueError for `save_weights_only=False`, or a `save_freq` that is neither "epoch" nor a number above 0."""
        super().__init__(monitor, mode)
        self.filepath: Final = as_name(filepath)
        self.verbose: Final = verbose
        self.save_best_only: Final = switch("save_best_only", save_best_only)
        if not switch("save_weights_only", save_weights_only):
            raise ValueError("weights are saved, not models: leave save_weights_only out, and build the model anew")
        self.save_freq: Final = checked_save_freq(save_freq)
        if initial_value_threshold is not None:
            self.best: float = number("initial_value_threshold", initial_value_threshold)
        self._epoch = self._batches = 0

    def backup_state(self) -> Any:
        """The best value, and the number of batches."""
        return {"best": self.best, "batches": self._batches}

    def restore_state(self, state: Any) -> None:
        """Go on with them."""
        self.best, self._batches = state["best"], state["batches"]

    def on_epoch_begin(self, epoch: int, logs: Logs) -> None:
        """Note the epoch."""
        self._epoch = epoch

    async def on_train_batch_end(self, batch: int, logs: Logs) -> None:
        """Save, if batches are counted."""
        self._batches += 1
        if self.save_freq != "epoch" and self._batches % self.save_freq == 0:
            await self._save({"batch": batch + 1, **logs})

    async def on_epoch_end(self, epoch: int, logs: Logs) -> None:
        """Save, if epochs are counted. ValueError if the logs lack the value."""
        if self.save_freq == "epoch" and not (self.save_best_only and self._skips(epoch)):
            await self._save(logs)

    async def _save(self, logs: Logs) -> None:
        if self.save_best_only and not self._is_better(self._value(logs)):
            return
        try:
            path = self.filepath.format(**{"epoch": self._epoch + 1, **logs})
        except (KeyError, IndexError) as error:
            raise ValueError(f"{self.filepath!r} names {error}, and there are epoch, {', '.join(logs)}") from None
        await self.model.save_weights(path, session=self.session)
        _say(self.verbose, f"epoch {self._epoch + 1}: saved {path}")


class BackupAndRestore(Callback):
    """Saves the state of training, and goes on from it when `fit` is called again after an interruption.

    The further `fit` has the same arguments, in a program that builds the same model. It begins at the epoch and batch
    of the last backup, whatever its `initial_epoch`, which must not be above that, and gives the weights that training
    without the interruption gives. Data, those for validation too, are taken from the beginning again, and the batches
    before the position are skipped. Other callbacks go on from what their `backup_state` gave, such as the best weights
    of `EarlyStopping`.

    Args:
        backup_dir: a folder for the backups of this training alone, which this process and the tasks with weights see.
        save_freq: the number of batches between two backups within an epoch; "epoch" saves after each epoch only.
        delete_checkpoint: whether the end of training deletes the backup. If not, a further `fit` with more epochs goes
            on from it.

    Examples:
        >>> backup = af.callbacks.BackupAndRestore("backup")
        >>> model = af.Sequential([af.layers.Input([1]), af.layers.Dense(1)])
        >>> model.compile("sgd", "mse")
        >>> history = await model.fit(np.ones([4, 1]), np.ones([4, 1]), epochs=2, verbose=0, callbacks=[backup])
    """

    def __init__(
        self, backup_dir: Path, save_freq: int | Literal["epoch"] = "epoch", delete_checkpoint: bool = True
    ) -> None:
        """ValueError for a `save_freq` that is no number above 0."""
        self.backup_dir: Final = as_name(backup_dir)
        self.save_freq: Final = checked_save_freq(save_freq)
        self.delete_checkpoint: Final = switch("delete_checkpoint", delete_checkpoint)


def checked_save_freq(given: Any) -> int | Literal["epoch"]:
    """After how many batches weights are saved, or "epoch". ValueError for anything else."""
    if given != "epoch" and (not isinstance(given, int) or isinstance(given, bool) or given < 1):
        raise ValueError(f"save_freq is 'epoch' or a number of batches, not {safe_repr(given)}")
    return given  # type: ignore[no-any-return]


def _say(verbose: int, text: str) -> None:
    if verbose:
        print(text)


__all__ = [
    "BackupAndRestore",
    "CSVLogger",
    "Callback",
    "EarlyStopping",
    "History",
    "LambdaCallback",
    "LearningRateScheduler",
    "LiveSummaries",
    "ModelCheckpoint",
    "ReduceLROnPlateau",
    "SwapEMAWeights",
    "TensorBoard",
    "TerminateOnNaN",
]
Face(__name__, {__name__: " ".join(__all__)})
