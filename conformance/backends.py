"""aioflow and ONNX Runtime as backends of ONNX's tests: both are given a model, then lists of inputs."""

import asyncio
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx.backend.base
import onnxruntime

import aioflow as af


class AioflowModel:
    """A model loaded into a graph of its own."""

    def __init__(self, model: Any) -> None:
        self._imported = af.onnx.load(model.SerializeToString(), af.Graph())

    def run(self, inputs: Sequence[Any]) -> list[Any]:
        """The outputs for these inputs, in the model's order."""
        return asyncio.run(self._run(inputs))

    async def _run(self, inputs: Sequence[Any]) -> list[Any]:
        imported = self._imported
        feeds = dict(zip(imported.inputs.values(), inputs, strict=True))
        async with af.Session(graph=imported.graph) as session:
            await session.run(imported.initializer)
            results = await session.run(list(imported.outputs.values()), feeds)
        return [_as_given(result) for result in results]


def _as_given(result: Any) -> Any:
    """A result in the form in which the tests compare it: strings are Python's."""
    if isinstance(result, list):
        return [_as_given(np.asarray(item)) for item in result]
    if isinstance(result, (str, bytes)) or getattr(result, "dtype", None) == np.dtype(object):
        return np.vectorize(lambda item: item.decode() if isinstance(item, bytes) else item, otypes=[object])(result)
    return result


class PeerModel:
    """A model in a session of ONNX Runtime."""

    def __init__(self, model: Any) -> None:
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        self._session = onnxruntime.InferenceSession(model.SerializeToString(), options)

    def run(self, inputs: Sequence[Any]) -> list[Any]:
        """The outputs for these inputs, in the model's order."""
        names = [each.name for each in self._session.get_inputs()]
        return list(self._session.run(None, dict(zip(names, inputs, strict=True))))


class Backend(onnx.backend.base.Backend):
    """What ONNX's runner of tests asks for; `model` is one of the classes above."""

    model: type

    @classmethod
    def prepare(cls, model: Any, device: str = "CPU", **kwargs: Any) -> Any:
        """The model, ready to run."""
        return cls.model(model)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Whether tests for the device are run."""
        return device == "CPU"


class AioflowBackend(Backend):
    """aioflow."""

    model = AioflowModel


class PeerBackend(Backend):
    """ONNX Runtime."""

    model = PeerModel
