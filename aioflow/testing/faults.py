"""Kernels that fail, or stop at a gate, in the call that a test chooses.

    with faulty_kernel("matmul", at=3, error=af.errors.DataLossError("a bit has flipped")) as fault:
        async with af.Session(graph=graph) as session:
            ...                                  # the third product raises the error
    assert fault.calls == 3

Kernels are chosen when a call is planned, so only sessions that are opened inside the block use the faulty one.
"""

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

from aioflow.graph.kernel import Kernel, NodeView
from aioflow.graph.op import REGISTRY, Op
from aioflow.testing.gates import Gate


class Fault:
    """The fault of a kernel.

    Attributes:
        calls: number of calls that have begun.

    Examples:
        >>> from aioflow.testing import faulty_kernel
        >>> y = af.square(af.placeholder(af.float32, [], name="x"))
        >>> with faulty_kernel("square", at=2, error=af.errors.UnavailableError("planted")) as fault:
        ...     print(await session.run(y, {"x:0": 3.0}))
        9.0
        >>> fault.calls
        1
    """

    def __init__(self, at: int | None, error: BaseException | None, gate: Gate | None) -> None:
        self.calls: int = 0
        self._at = at
        self._error = error
        self._gate = gate

    def raise_if_due(self) -> None:
        """Count a call, and raise the error if this call is to fail."""
        self.calls += 1
        if self._error is not None and self._at in (None, self.calls):
            raise self._error

    async def wait_at_gate(self) -> None:
        """Wait at the gate, if there is one."""
        if self._gate is not None:
            await self._gate.wait()


@contextlib.contextmanager
def faulty_kernel(
    op_type: str, *, at: int | None = None, error: BaseException | None = None, gate: Gate | None = None
) -> Iterator[Fault]:
    """Inside the block, kernels of that op raise `error` in call number `at`, or in every call if `at` is None.

    With a `gate` each call enters the gate first and goes on when it opens; only an op that waits can have one.

    Raises:
        KeyError: there is no such op.
        TypeError: a gate is given, but a kernel of the op does not wait.

    Examples:
        >>> from aioflow.testing import faulty_kernel
        >>> y = af.add(1.0, af.placeholder(af.float32, [], name="x"))
        >>> with faulty_kernel("add", error=af.errors.UnavailableError("planted")):
        ...     try:
        ...         await session.run(y, {"x:0": 1.0})
        ...     except af.errors.UnavailableError:
        ...         print("the kernel failed")
        the kernel failed
    """
    op = REGISTRY[op_type]
    fault = Fault(at, error, gate)
    kernels = {kind: list(chosen) for kind, chosen in op.kernels.items()}
    if gate is not None and not all(kernel.asynchronous for chosen in kernels.values() for kernel in chosen):
        raise TypeError(f"{op_type} does not wait: its kernels cannot be held by a gate")
    try:
        for kind, chosen in kernels.items():
            op.kernels[kind] = [_faulty(kernel, fault) for kernel in chosen]
        Op.kernel_changes += 1
        yield fault
    finally:
        op.kernels.update(kernels)
        Op.kernel_changes += 1


@dataclasses.dataclass(frozen=True, slots=True)
class _Faulty(Kernel):
    fault: Fault | None = None

    def bind(self, op: Op[Any], node: NodeView, xp: Any) -> Callable[..., Any]:
        """Bind the kernel, with the fault before its function."""
        function, fault = Kernel.bind(self, op, node, xp), self.fault
        assert fault is not None

        def call(*inputs: Any, **options: Any) -> Any:
            fault.raise_if_due()
            return function(*inputs, **options)

        async def awaited(*inputs: Any, **options: Any) -> Any:
            await fault.wait_at_gate()
            fault.raise_if_due()
            return await function(*inputs, **options)

        return awaited if self.asynchronous else call


def _faulty(kernel: Kernel, fault: Fault) -> Kernel:
    fields = {field.name: getattr(kernel, field.name) for field in dataclasses.fields(kernel)}
    return _Faulty(**fields, fault=fault)
