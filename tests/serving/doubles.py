"""Models without sessions: functions of arrays behind the signatures of small graphs, held at a gate on request."""

import asyncio
import contextlib

import numpy as np

import aioflow as af
from aioflow import errors
from aioflow.saved_model.signature import SERVING_DEFAULT, Signature
from aioflow.serving.request import Request
from aioflow.serving.status import VersionStatus


class Version:
    """A version whose signatures are computed by functions, `{name: (signature, function)}`."""

    state = "available"
    ready = True
    replicas = ()
    full = False

    def __init__(self, name, version, functions):
        self.name, self.version = name, version
        self.signatures = {key: signature for key, (signature, _) in functions.items()}
        self._functions = {key: function for key, (_, function) in functions.items()}
        self.gate = self.error = None
        self.left = asyncio.Semaphore(0)
        self.seen = []
        self.holders = self.cancelled = self.most_priority = 0

    def check_room(self):
        if self.full:
            raise errors.ResourceExhaustedError("4096 rows wait")

    @contextlib.contextmanager
    def held(self):
        self.holders += 1
        try:
            yield self
        finally:
            self.holders -= 1

    async def infer(self, inputs, signature=SERVING_DEFAULT, outputs=None, priority=0):
        self._check(inputs, signature)
        self.most_priority = max(priority, self.most_priority)
        self.seen.append(inputs)
        if self.error is not None:
            raise self.error
        if self.gate is not None:
            try:
                await self.gate.wait()
            except BaseException:
                self.cancelled += 1
                self.left.release()
                raise
        found = {key: np.asarray(value) for key, value in self._functions[signature](**inputs).items()}
        return {key: found[key] for key in outputs} if outputs else found

    async def stream(self, inputs, signature=SERVING_DEFAULT, outputs=None, priority=0):
        while True:
            inputs = await self.infer(inputs, signature, priority=priority)
            yield inputs
            if not inputs["more"].any():
                return
            inputs = {key: inputs[key] for key in self.signatures[signature].inputs}

    def _check(self, inputs, signature):
        if signature not in self.signatures:
            raise errors.InvalidArgumentError(f"there is no signature {signature!r}")
        wanted = self.signatures[signature].inputs
        if inputs.keys() != wanted.keys():
            raise errors.InvalidArgumentError(f"the inputs are {sorted(wanted)}, not {sorted(inputs)}")
        for name, array in inputs.items():
            spec = wanted[name].spec
            if af.as_dtype(array.dtype) is not spec.dtype or not spec.shape.is_compatible_with(array.shape):
                raise errors.InvalidArgumentError(f"input {name!r} is {spec}, not {array.dtype}{list(array.shape)}")


class Models(af.serving.Models):
    """Versions by name and number; `labels` is `{(name, label): number}`."""

    ready = True
    observers = ()

    def __init__(self, *versions, labels=None, metrics=None):
        self.metrics = metrics
        self._versions = {(version.name, version.version): version for version in versions}
        self._labels = labels or {}

    def find(self, name, version=None, label=None):
        numbers = self.versions(name)
        number = self._labels.get((name, label)) if label is not None else version or numbers[-1]
        if number not in numbers:
            raise errors.NotFoundError(f"model {name!r} has the versions {numbers}, not {label or version}")
        return self._versions[name, number]

    def versions(self, name):
        numbers = sorted(number for key, number in self._versions if key == name)
        if not numbers:
            raise errors.NotFoundError(f"there is no model {name!r}")
        return numbers

    def status(self, name):
        failed = VersionStatus(9, "failed", (), errors.DataLossError("half of it"))
        return [failed, *(VersionStatus(number, "available") for number in reversed(self.versions(name)))]


def affine(version=1):
    """x -> 2 x + 1, for rows of two numbers."""
    with af.Graph().as_default():
        x, y = (af.placeholder(af.float32, [None, 2], name=name) for name in "xy")
    return Version("affine", version, {SERVING_DEFAULT: (Signature({"x": x}, {"y": y}), lambda x: {"y": 2 * x + 1})})


def counter():
    """A model that counts down from its input, an iteration a number."""
    with af.Graph().as_default():
        n, more = af.placeholder(af.int32, [None], name="n"), af.placeholder(af.bool_, [None], name="more")
    signature = Signature({"n": n}, {"n": n, "more": more}, repeat_while="more")
    return Version("counter", 1, {SERVING_DEFAULT: (signature, lambda n: {"n": n - 1, "more": n > 1})})


def request(method, path, body=b"", headers=None, chunk=None):
    """A request whose body arrives in chunks of that size."""

    async def chunks():
        for start in range(0, len(body), chunk or len(body) or 1):
            yield body[start : start + (chunk or len(body))]

    sized = {"content-length": str(len(body))} if body else {}
    return Request(method, path, {**sized, **(headers or {})}, chunks())


async def received(response):
    """The status, headers and body of a response."""
    pieces = []

    async def write(piece):
        pieces.append(piece)

    await response.write_to(write)
    return response.status, response.headers, b"".join(pieces)


async def answer(service, *args, **kwargs):
    """The status, headers and body of the answer to a request."""
    return await service.answer(request(*args, **kwargs), received)
