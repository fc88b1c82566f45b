"""Runs one signature: checks a request by what the signature expects, and shares runs with other requests."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from aioflow import errors
from aioflow.graph.operation import Tensor
from aioflow.runtime.feeds import fits
from aioflow.saved_model.signature import Signature
from aioflow.serving.batching import Batching
from aioflow.serving.timing import BatchNotes
from aioflow.session import Session
from aioflow.session.request_batcher import BatchObserver, FinishedBatch, RequestBatcher
from aioflow.tensors import dtypes
from aioflow.tensors.as_array import as_array
from aioflow.tensors.dtypes import Array
from aioflow.tensors.recursion import safe_repr

Outputs = dict[str, Array]


class SignatureRunner:
    """Runs the requests of one signature in a session.

    Requests share runs if each input and output has rows, any number of them, in axis 0.

    Attributes:
        signature: the signature.
    """

    def __init__(
        self,
        name: str,
        signature: Signature,
        session: Session,
        batching: Batching | None,
        observer: BatchObserver | None = None,
    ) -> None:
        """ValueError if the limits of `batching` make no sense."""
        self.signature: Final = signature
        self._name: Final = name
        self._session: Final = session
        self._priorities: Final = 1 if batching is None else batching.priorities
        self._most_rows: Final = 0 if batching is None else batching.max_waiting
        self._batcher: Final = (
            None if batching is None or not has_rows(signature) else _batcher(signature, session, batching)
        )
        self._observers: Final = [] if observer is None else [observer]
        if self._batcher is not None:
            self._batcher.observer = observer
            self._batcher.surroundings = BatchNotes(name)
        self._inputs: Final = [_Input(key, tensor) for key, tensor in signature.inputs.items()]
        self._outputs: Final = tuple(signature.outputs)
        self._runs: Final[dict[tuple[str, ...], Callable[..., Awaitable[Outputs]]]] = {}

    @property
    def batches(self) -> bool:
        """Whether requests share runs."""
        return self._batcher is not None

    @property
    def batcher(self) -> RequestBatcher[Outputs] | None:
        """Gathers its requests; None if each one runs alone."""
        return self._batcher

    def observe(self, observer: BatchObserver) -> Callable[[], None]:
        """Tell one more observer of its batches. Returns the function that ends this."""
        self._observers.append(observer)
        self._show_observers()

        def stop() -> None:
            self._observers.remove(observer)
            self._show_observers()

        return stop

    def _show_observers(self) -> None:
        """Without an observer, batches have no cost for it."""
        observers = tuple(self._observers)

        def tell(batch: FinishedBatch) -> None:
            for each in observers:
                each(batch)

        if self._batcher is not None:
            self._batcher.observer = tell if observers else None

    @property
    def is_open(self) -> bool:
        """Whether its session is open."""
        return not self._session.closed

    @property
    def has_room(self) -> bool:
        """Whether a further row may wait."""
        return self._batcher is None or self._batcher.has_room

    def abort(self, error: errors.OpError) -> None:
        """End the requests that wait for a run, and all later ones that would. See `RequestBatcher.abort`."""
        if self._batcher is not None:
            self._batcher.abort(error)

    async def run(self, inputs: Mapping[str, Any], outputs: Sequence[str] | None, priority: int) -> Outputs:
        """Return outputs by name, all by default. Raises as `ServedVersion.infer` does."""
        wanted = self._outputs if outputs is None else self.wanted(outputs)
        values = self._values(inputs)
        if not isinstance(priority, int) or not 0 <= priority < self._priorities:
            raise self._error(f"has no priority {safe_repr(priority)}, only 0 to {self._priorities - 1}")
        try:
            if self._batcher is None:
                return await self._plain(wanted)(*values)
            if len(values[0]) > self._most_rows:
                raise self._error(f"takes {self._most_rows} rows at most, max_waiting, and was given {len(values[0])}")
            results = await self._batcher(*values, priority=priority)
        except RuntimeError:
            if self.is_open:
                raise
            text = "was closed: remove the model, or keep the session open while it is served"
            raise errors.UnavailableError(f"the session of signature {self._name!r} {text}") from None
        return results if outputs is None else {name: results[name] for name in wanted}

    def _plain(self, wanted: tuple[str, ...]) -> Callable[..., Awaitable[Outputs]]:
        found = self._runs.get(wanted)
        if found is None:
            fetches = {name: self.signature.outputs[name] for name in wanted}
            found = self._runs[wanted] = self._session.make_callable(fetches, list(self.signature.inputs.values()))
        return found

    # Checks

    def wanted(self, outputs: Sequence[str] | None) -> tuple[str, ...]:
        """Return the names of outputs, all by default. InvalidArgumentError if there is no such output."""
        if outputs is None:
            return self._outputs
        if isinstance(outputs, str):
            raise self._error(f"expects a list of the names of outputs, as [{outputs!r}], not {outputs!r}")
        strange = [name for name in outputs if name not in self.signature.outputs]
        if strange or not outputs:
            asked = f"has no output {strange[0]!r}" if strange else "was asked for no output"
            raise self._error(f"{asked}; it has {', '.join(self.signature.outputs)}")
        return tuple(dict.fromkeys(outputs))

    def _values(self, inputs: Mapping[str, Any]) -> list[Array]:
        """Return the values in the order of the inputs, each as an array of its dtype and a shape that fits."""
        if not isinstance(inputs, Mapping):
            raise self._error(f"expects a value by name for each input, as {{'x': ...}}, not {safe_repr(inputs)}")
        if inputs.keys() != self.signature.inputs.keys():
            raise self._wrong_names(inputs)
        values = []
        for each in self._inputs:
            value = inputs[each.name]
            values.append(value if each.fits(value) else self._converted(each, value))
        if len(values) > 1 and self._batcher is not None and len(set(map(len, values))) > 1:
            given = ", ".join(
                f"{len(value)} of {each.name!r}" for each, value in zip(self._inputs, values, strict=True)
            )
            raise self._error(f"needs as many rows of each input, and was given {given}")
        return values

    def _wrong_names(self, inputs: Mapping[str, Any]) -> errors.InvalidArgumentError:
        expected = self.signature.inputs
        missing = ", ".join(name for name in expected if name not in inputs)
        strange = ", ".join(map(safe_repr, (name for name in inputs if name not in expected)))
        problem = f"lacks {missing}" if missing else f"has no input {strange}"
        return self._error(f"{problem}; it is {self.signature.describe()}")

    def _converted(self, each: "_Input", value: Any) -> Array:
        """Return Python's own numbers and texts as an array. InvalidArgumentError for anything else."""
        spec = each.tensor.spec
        if not isinstance(value, (np.ndarray, np.generic)) or spec.dtype is dtypes.string:
            try:
                value = as_array(value, spec.dtype, strict=True)
            except (TypeError, ValueError) as error:
                raise self._error(f"expects {spec} for {each.name!r}: {error}") from None
        if value.dtype != spec.dtype.np or not spec.shape.is_compatible_with(value.shape):
            raise self._error(f"expects {spec} for {each.name!r}, and was given {value.dtype}{list(value.shape)}")
        return value

    def _error(self, problem: str) -> errors.InvalidArgumentError:
        return errors.InvalidArgumentError(f"signature {self._name!r} {problem}")


def _batcher(signature: Signature, session: Session, batching: Batching) -> RequestBatcher[Outputs]:
    """Return a batcher of all outputs, so that requests for different ones share runs, too."""
    return session.batched(
        dict(signature.outputs), list(signature.inputs.values()),
        max_rows=batching.max_rows, max_delay=batching.max_delay, max_waiting=batching.max_waiting,
        buckets=batching.buckets, priorities=batching.priorities, isolate_errors=batching.isolate_errors,
    )  # fmt: skip


def has_rows(signature: Signature) -> bool:
    """Whether each input and output has rows in axis 0, any number of them."""
    tensors = [*signature.inputs.values(), *signature.outputs.values()]
    return bool(signature.inputs) and all(_has_open_rows(tensor) for tensor in tensors)


def _has_open_rows(tensor: Tensor) -> bool:
    sizes = tensor.shape.sizes
    return bool(sizes) and sizes is not None and sizes[0] is None


class _Input:
    """An input of a signature, with what a quick check of a value needs."""

    __slots__ = ("_dtype", "_sizes", "name", "tensor")

    def __init__(self, name: str, tensor: Tensor) -> None:
        self.name: Final = name
        self.tensor: Final = tensor
        self._dtype: Final = tensor.dtype.np
        self._sizes: Final = tensor.shape.sizes

    def fits(self, value: Any) -> bool:
        """Whether the value is an array that needs no conversion. False if only a longer check can tell."""
        if type(value) is not np.ndarray or value.dtype is not self._dtype or self._sizes is None:
            return False
        return self._dtype.kind != "O" and fits(value.shape, self._sizes)


def make_runners(
    signatures: Mapping[str, Signature],
    session: Session,
    batching: Batching | None,
    observer: BatchObserver | None = None,
) -> dict[str, SignatureRunner]:
    """Return a runner for each signature, by name. The observer is told of each batch that has ended."""
    return {
        name: SignatureRunner(name, signature, session, batching, observer) for name, signature in signatures.items()
    }
