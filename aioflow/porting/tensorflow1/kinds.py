"""What the names of a program stand for: parts of TensorFlow, objects of aioflow's, functions of its own."""

import ast
import dataclasses
import inspect
import re
from collections.abc import Mapping
from typing import Final, TypeAlias

from aioflow.config import Config
from aioflow.graph.operation import Operation, Tensor
from aioflow.library.variables import Variable
from aioflow.porting.tensorflow1.script import FunctionNode
from aioflow.session import Session
from aioflow.summary.writer import FileWriter
from aioflow.train.checkpoint_manager import CheckpointManager
from aioflow.train.coordinator import Coordinator
from aioflow.train.looper import LooperThread
from aioflow.train.monitored_session import MonitoredSession, SingularMonitoredSession
from aioflow.train.saver import Saver
from aioflow.train.session_manager import SessionManager
from aioflow.train.supervisor import Supervisor


@dataclasses.dataclass(frozen=True)
class TensorFlowName:
    """A module of TensorFlow's, or a member of one.

    Attributes:
        path: its path below `tf`; empty for `tf` itself.
    """

    path: str


@dataclasses.dataclass(frozen=True)
class Foreign:
    """Another package, or anything that comes from one."""


@dataclasses.dataclass(frozen=True)
class Live:
    """An object whose methods a program calls, of one of these classes of aioflow."""

    classes: tuple[type, ...]


@dataclasses.dataclass(frozen=True)
class Method:
    """A method of such an object."""

    owner: Live
    name: str

    @property
    def is_awaited(self) -> bool:
        """Whether a call must be awaited."""
        return any(inspect.iscoroutinefunction(getattr(each, self.name, None)) for each in self.owner.classes)


@dataclasses.dataclass(frozen=True)
class OwnClass:
    """A class of the program."""

    node: ast.ClassDef


@dataclasses.dataclass(frozen=True)
class OwnObject:
    """An object of a class of the program."""

    node: ast.ClassDef


@dataclasses.dataclass(frozen=True)
class OwnFunction:
    """A function of the program, or a method of one of its objects."""

    node: FunctionNode


@dataclasses.dataclass(frozen=True)
class AsyncBlock:
    """A call that `async with` enters, and what its target stands for then."""

    target: "Kind | None"


@dataclasses.dataclass(frozen=True)
class CoroutineFunction:
    """A function whose calls are awaited, such as the result of `make_callable`."""


@dataclasses.dataclass(frozen=True)
class Several:
    """A tuple or list with parts of known kinds."""

    items: tuple["Kind | None", ...]


Kind: TypeAlias = (
    TensorFlowName
    | Foreign
    | Live
    | Method
    | OwnClass
    | OwnObject
    | OwnFunction
    | AsyncBlock
    | CoroutineFunction
    | Several
)

SESSION: Final = Live((Session,))
SAVER: Final = Live((Saver,))
COORDINATOR: Final = Live((Coordinator,))
WRITER: Final = Live((FileWriter,))
SUPERVISOR: Final = Live((Supervisor,))
MONITORED: Final = Live((MonitoredSession,))
VALUE: Final = Live((Tensor, Operation, Variable))
"""A part of a graph: what most functions of TensorFlow return."""


class _Server:
    """Stands for `af.train.Server`, which needs packages that the port does not."""

    async def join(self) -> None: ...
    async def __aenter__(self) -> "_Server":
        return self


SERVER: Final = Live((_Server,))
CONFIG: Final = Live((Config,))

RESULTS: Final[Mapping[str, Live]] = {
    "ConfigProto": CONFIG,
    "InteractiveSession": SESSION,
    "Session": SESSION,
    "get_default_session": SESSION,
    "summary.FileWriter": WRITER,
    "train.CheckpointManager": Live((CheckpointManager,)),
    "train.Coordinator": COORDINATOR,
    "train.LooperThread": Live((LooperThread,)),
    "train.MonitoredSession": MONITORED,
    "train.MonitoredTrainingSession": MONITORED,
    "train.Saver": SAVER,
    "train.Server": SERVER,
    "train.SessionManager": Live((SessionManager,)),
    "train.SingularMonitoredSession": Live((SingularMonitoredSession,)),
    "train.Supervisor": SUPERVISOR,
    "train.import_meta_graph": SAVER,
}
"""What a call of a name of TensorFlow's returns, if it is no part of a graph."""

_METHOD_RESULTS: Final[Mapping[tuple[Live, str], Kind]] = {
    (SESSION, "make_callable"): CoroutineFunction(),
    (SUPERVISOR, "managed_session"): AsyncBlock(SESSION),
    (SUPERVISOR, "prepare_or_wait_for_session"): SESSION,
}
_CUSTOMARY: Final[Mapping[str, Live]] = {
    "sess": SESSION,
    "saver": SAVER,
    "coord": COORDINATOR,
    "server": SERVER,
    "summary_writer": WRITER,
    "train_writer": WRITER,
    "test_writer": WRITER,
    "supervisor": SUPERVISOR,
}
"""The names that programs give to such objects, where nothing else tells what a name stands for."""


def customary(name: str) -> Live | None:
    """Return the kind of object that programs usually give a name, or a name with a word that begins with it."""
    return next((kind for word, kind in _CUSTOMARY.items() if re.search(rf"(^|_){word}", name.lower())), None)


def result_of(called: Kind | None) -> Kind | None:
    """Return the kind of the result of a call, of anything but a function of the program."""
    match called:
        case TensorFlowName(path):
            return RESULTS.get(path, VALUE)
        case Foreign():
            return called
        case OwnClass(node):
            return OwnObject(node)
        case Method(owner, name):
            return _METHOD_RESULTS.get((owner, name), None if _gives_values(called) else VALUE)
    return None


def _gives_values(method: Method) -> bool:
    """Whether a method returns values of a run, or nothing that is run later."""
    return method.is_awaited or method.owner in (SAVER, COORDINATOR, WRITER, CONFIG)


def block_of(kind: Kind | None) -> AsyncBlock | None:
    """Return how `async with` enters an object; None where `with` does, or nothing is known."""
    if isinstance(kind, AsyncBlock):
        return kind
    if isinstance(kind, Live) and kind is not VALUE and hasattr(kind.classes[0], "__aenter__"):
        return AsyncBlock(kind)
    return None
