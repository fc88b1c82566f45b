"""One version of a model: its signatures, and its runs."""

import contextlib
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from typing import Any

from aioflow.saved_model.signature import SERVING_DEFAULT, Signature
from aioflow.serving.status import State
from aioflow.tensors.dtypes import Array


class ServedVersion:
    """One version of a model. `Models.find` gives it.

    A version that has been replaced ends when its last request has its answer, so a request that is running never
    fails for that. A caller that awaits something between `find` and `infer` holds the version meanwhile:

        with models.find("digits").held() as version:
            inputs = await decode(body, version.signatures)
            outputs = await version.infer(inputs)

    Attributes:
        name: the name of the model.
        version: its number.
        signatures: its functions by name; each has tensors with dtypes and shapes as inputs and outputs.
    """

    name: str
    version: int
    signatures: Mapping[str, Signature]

    @property
    def state(self) -> State:
        """Its state."""
        raise NotImplementedError

    @contextlib.contextmanager
    def held(self) -> Iterator["ServedVersion"]:
        """Inside the block it is not closed, even if another version replaces it. UnavailableError if it has ended."""
        raise NotImplementedError
        yield self

    async def infer(
        self,
        inputs: Mapping[str, Any],
        signature: str = SERVING_DEFAULT,
        outputs: Sequence[str] | None = None,
        priority: int = 0,
    ) -> dict[str, Array]:
        """Return the outputs of a signature, by name, for these inputs.

        Requests share runs if all inputs and outputs of the signature have rows, any number of them, in axis 0. A
        cancelled request is not run if its run has not begun.

        Args:
            inputs: an array for each input.
            signature: the name of the signature.
            outputs: the names of the outputs to return; all by default.
            priority: the level of priority, from 0, which is served first.

        Raises:
            af.errors.InvalidArgumentError: there is no such signature, input or output, or an array has another dtype
                or shape. The text names what was expected.
            af.errors.ResourceExhaustedError: too many rows wait already; nothing was done.
            af.errors.UnavailableError: the version has ended.
            af.errors.OpError: the run failed.
        """
        raise NotImplementedError

    async def stream(
        self,
        inputs: Mapping[str, Any],
        signature: str = SERVING_DEFAULT,
        outputs: Sequence[str] | None = None,
        priority: int = 0,
    ) -> AsyncGenerator[dict[str, Array], None]:
        """The outputs of iteration after iteration of a signature with `repeat_while`.

        Iterations of several streams share runs. Leaving early stops the loop; close the iterator by
        `contextlib.aclosing`. Raises as `infer` does, and InvalidArgumentError for a signature without iterations.
        """
        raise NotImplementedError
        yield {}
