"""Runs one signature: checks a request by what the signature expects, and shares runs with other requests."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from aioflow import errors
from aioflow.graph.operation import Tensor
from aioflow.saved_model.signature import Signature
from aioflow.serving.batching import Batching
from aioflow.session import Session
from aioflow.session.request_batcher import RequestBatcher
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

    def __init__(self, name: str, signature: Signature, session: Session, batching: Batching | None) -> None:
        """ValueError if the limits of `batching` make no sense."""
        self.signature: Final = signature
        self._name: Final = name
        self._session: Final = session
        self._priorities: Final = 1 if batching is None else batching.priorities
        self._batcher: Final = (
            None if batching is None or not has_rows(signature) else _batcher(signature, session, batching)
        )
        self._runs: Final[dict[tuple[str, ...], Callable[..., Awaitable[Outputs]]]] = {}

    @property
    def batches(self) -> bool:
        """Whether requests share runs."""
        return self._batcher is not None

    async def run(self, inputs: Mapping[str, Any], outputs: Sequence[str] | None, priority: int) -> Outputs:
        """Return outputs by name, all by default. Raises as `ServedVersion.infer` does."""
        wanted = self.wanted(outputs)
        values = [self._value(name, tensor, inputs[name]) for name, tensor in self._given(inputs)]
        self._check_rows(values)
        if not 0 <= priority < self._priorities:
            raise self._error(f"has no priority {priority}, only 0 to {self._priorities - 1}")
        if self._batcher is None:
            return await self._plain(wanted)(*values)
        results = await self._batcher(*values, priority=priority)
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
            return tuple(self.signature.outputs)
        strange = [name for name in outputs if name not in self.signature.outputs]
        if strange or not outputs:
            asked = f"has no output {strange[0]!r}" if strange else "was asked for no output"
            raise self._error(f"{asked}; it has {', '.join(self.signature.outputs)}")
        return tuple(dict.fromkeys(outputs))

    def _given(self, inputs: Mapping[str, Any]) -> Sequence[tuple[str, Tensor]]:
        expected = self.signature.inputs
        if inputs.keys() != expected.keys():
            missing = ", ".join(name for name in expected if name not in inputs)
            strange = ", ".join(map(safe_repr, (name for name in inputs if name not in expected)))
            problem = f"lacks {missing}" if missing else f"has no input {strange}"
            raise self._error(f"{problem}; it is {self.signature.describe()}")
        return list(expected.items())

    def _value(self, name: str, tensor: Tensor, value: Any) -> Array:
        """Return the value as an array of the dtype and shape of an input."""
        dtype = tensor.dtype
        if not isinstance(value, (np.ndarray, np.generic)) or dtype is dtypes.string:
            try:
                value = as_array(value, dtype, strict=True)
            except (TypeError, ValueError) as error:
                raise self._error(f"expects {tensor.spec} for {name!r}: {error}") from None
        if value.dtype != dtype.np or not tensor.shape.is_compatible_with(value.shape):
            raise self._error(f"expects {tensor.spec} for {name!r}, and was given {value.dtype}{list(value.shape)}")
        return value

    def _check_rows(self, values: Sequence[Array]) -> None:
        if self.batches and len({len(value) for value in values}) > 1:
            given = ", ".join(
                f"{len(value)} of {name!r}" for name, value in zip(self.signature.inputs, values, strict=True)
            )
            raise self._error(f"needs as many rows of each input, and was given {given}")

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


def make_runners(
    signatures: Mapping[str, Signature], session: Session, batching: Batching | None
) -> dict[str, SignatureRunner]:
    """Return a runner for each signature, by name."""
    return {name: SignatureRunner(name, signature, session, batching) for name, signature in signatures.items()}
