"""Values and messages to send, and what they are when they have come."""

import dataclasses

import ml_dtypes
import numpy as np

from aioflow.kernels.control.control_flow import DEAD
from aioflow.net.wire.control_verbs import (
    Cancel,
    Credit,
    Drop,
    Failure,
    Goodbye,
    Hello,
    Part,
    Ping,
    Pong,
    Reply,
    Welcome,
)
from aioflow.net.wire.fields import Device
from aioflow.net.wire.limits import Limits
from aioflow.net.wire.master_verbs import (
    Acknowledge,
    CallableMade,
    CloseSession,
    CommitStep,
    CreateSession,
    DeviceList,
    ExtendSession,
    InspectSession,
    ListDevices,
    ListTasks,
    MakeCallable,
    PartialRun,
    PartialRunReady,
    PartialRunSetup,
    Place,
    Placed,
    ReleaseCallable,
    Replan,
    Reset,
    RunCallable,
    RunStep,
    SessionCreated,
    SessionExtended,
    StepDone,
    TakeBackOnAll,
    TaskList,
    UseQueue,
)
from aioflow.net.wire.worker_verbs import (
    AttemptTakenBack,
    CancelStep,
    CleanupGraph,
    CommitGraph,
    CreateWorkerSession,
    DeleteWorkerSession,
    DeregisterGraph,
    DropContainers,
    GetStatus,
    GraphRan,
    Inspect,
    Inspected,
    PushTensors,
    QueueServed,
    RecvTensor,
    RegisterGraph,
    RunGraph,
    ServeQueue,
    Status,
    Stop,
    TakeBack,
    TensorSent,
    Trace,
    Traced,
)
from aioflow.tensors.tensor_list import TensorList

PS, WORKER = "/job:ps/replica:0/task:0", "/job:worker/replica:0/task:1"
SESSION = "0123456789abcdef" * 2
KEY = (5, 3, (1 << 63) - 1)
X = np.arange(6, dtype=np.float32).reshape(2, 3)


def tensor_list(length, items, cleared=()):
    return TensorList(length).write_all(items).clear(cleared)


VALUES = {
    "float32": X,
    "transposed": X.T,
    "big endian": X.astype(">f4"),
    "strided": np.arange(20)[::3],
    "bfloat16": np.array([1.5, -2], ml_dtypes.bfloat16),
    "float8": np.array([[1.5]], ml_dtypes.float8_e5m2),
    "4 bits": np.array([-8, 7], ml_dtypes.int4),
    "complex": np.array([1 + 2j]),
    "bool": np.array([True, False]),
    "rank 0": np.array(7, np.int64),
    "empty": np.zeros((3, 0, 2), np.uint8),
    "scalar": np.float32(2.5),
    "strings": np.array([[b"a", b""], [b"\xff\x00", b"long" * 100]], object),
    "string of rank 0": np.array(b"text", object),
    "no strings": np.zeros((0, 2), object),
    "bytes": b"raw",
    "no bytes": b"",
    "none": None,
    "true": True,
    "int": -(1 << 63),
    "float": 0.1,
    "text": "é",
    "dead": DEAD,
    "list": tensor_list(9, {0: X, 1: X + 1, 3: np.float32(1), 4: np.float32(2), 5: np.array([b"s"], object)}, [4]),
    "list of lists": tensor_list(2, {1: tensor_list(3, {0: np.int8(1), 2: np.zeros(0)})}),
    "list of nothing": TensorList(4),
    "list of large ones": tensor_list(3, {0: np.arange(3000), 2: np.arange(5000)}),
}


def plain(value):
    """`value` as something that can be compared."""
    match value:
        case np.ndarray():
            kind = value.dtype.newbyteorder("=")
            return "array", kind.name, value.shape, value.tolist() if kind.hasobject else value.astype(kind).tobytes()
        case np.generic():
            return "scalar", value.dtype.name, value.tobytes()
        case TensorList():
            return "list", [plain(item) for item in value.elements()]
        case dict():
            return {key: plain(item) for key, item in value.items()}
        case tuple():
            return tuple(plain(item) for item in value)
    if dataclasses.is_dataclass(value):
        fields = {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
        return type(value).__name__, fields
    return value if value is DEAD else (type(value).__name__, value)


CPU = Device(f"{WORKER}/device:CPU:0", "CPU", 31, 1 << 30, "a processor")
FAILURE = Failure(
    "data_loss", "a cause", "add", "add_n", f"{PS}/device:CPU:0", PS, "model.py:1 in f", ("float32[2]",), ("a note",)
)
MESSAGES = [
    Hello("control", (1, 2), 7, PS, WORKER, "c0ffee", "", Limits(chunk=4096), heartbeat=0.5),
    Hello("bulk", (1,), 7, connection="ab" * 16, received=0),
    Welcome(1, 8, WORKER, "c0ffee", "ab" * 16, Limits(tensor=1 << 20), 1 << 40, 2.0, 4711, "cd" * 16),
    Reply(),
    FAILURE,
    Cancel(),
    Part(True),
    Drop(),
    Credit(1 << 20, 1 << 40),
    Ping(1.5, 1 << 40),
    Pong(1.5, -2.0),
    Goodbye("stopping"),
    CreateSession({"executor": "tokens", "device_count": {"CPU": 2}}, b"graph", {"c": X}),
    SessionCreated(SESSION, (CPU,)),
    ExtendSession(SESSION, 3, b"more", {"d": np.float32(1)}),
    SessionExtended(5),
    RunStep(SESSION, {"x:0": X, "y:0": None}, ("z:0",), ("init",), {"trace": True}),
    StepDone((X, b"", DEAD), b"metadata", True, True),
    CommitStep(SESSION, 7),
    PartialRunSetup(SESSION, ("x:0",), ("z:0",), ("init",), {}, 3),
    PartialRunReady("handle"),
    PartialRun(SESSION, "handle", {"x:0": X}, ("z:0",), 8),
    MakeCallable(SESSION, ("x:0",), ("z:0",)),
    CallableMade(4),
    RunCallable(SESSION, 4, (X, np.int32(1)), 7),
    Acknowledge(SESSION, (7, 1 << 63), False),
    TakeBackOnAll(SESSION, (1, 2, 1 << 63), ("/job:worker/replica:0/task:0",)),
    ReleaseCallable(SESSION, 4),
    CloseSession(SESSION),
    ListDevices(SESSION),
    DeviceList((CPU, CPU)),
    ListTasks(),
    TaskList({"/job:worker/replica:0/task:0": "host:2222"}),
    Reset(("models",)),
    InspectSession(SESSION),
    Place(SESSION, ("x:0",), ("z:0",), ("train",)),
    Placed(b"report"),
    Replan(SESSION),
    UseQueue(SESSION, "queue", "take", (X,), 2, True, 3),
    GetStatus(),
    Status((CPU,), {"steps": 3}),
    Inspect(),
    Inspected(b"report"),
    ServeQueue(b"handle", "take", (X,), 4, True, 1 << 63),
    QueueServed((X,), {"size": 3}),
    DropContainers(("models",)),
    CreateWorkerSession(SESSION),
    DeleteWorkerSession(SESSION),
    RegisterGraph(SESSION, 9, {"/job:worker/replica:0/task:1": b"part"}, {"c": X}, True),
    DeregisterGraph(SESSION, 9),
    RunGraph(SESSION, 9, 1 << 63, (X,), {"trace": True}, alone=True),
    GraphRan((X,), b"metadata", True, ("/job:worker/replica:0/task:1",)),
    RecvTensor(1 << 63, 1 << 63, (KEY, KEY)),
    TensorSent((1,), (X,)),
    PushTensors(5, 47, (KEY,), (X,)),
    CommitGraph(1 << 63, True),
    CleanupGraph((1 << 63, 2), False, False),
    CancelStep(1 << 63, FAILURE),
    TakeBack((1, 2, 3)),
    AttemptTakenBack(("a",)),
    Trace(2.0),
    Traced(b"events"),
    Stop("the job is done"),
]
