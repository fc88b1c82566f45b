"""What TensorFlow's barriers, staging areas and accumulators do: scenarios, kept in `coordination_scenarios.json`.

    python tests/data/make_coordination_scenarios.py > tests/data/coordination_scenarios.json

needs TensorFlow (2.21 made the file). A scenario makes one object and calls its methods,
        each call in a run of its own:

    ["run", method, arguments]             what it gives
    ["start", label, method, arguments]    in the background; null if it waits
    ["join", label]                        what that gives in the end

An argument {"int64": 3} is a tensor of that dtype. A run gives {"value": ...} or {"error": "its class"}; what is
refused when the graph is built is an InvalidArgumentError too.
"""

import json
import os
import threading
import time

SETTLED = 0.4
"""Seconds after which a run that has not ended waits."""


def f(value):
    return {"float32": value}


def k(value):
    return {"int64": value}


def insert(component, keys, values):
    return ["run", "insert_many", {"component_index": component, "keys": keys, "values": values}]


def take(count, how="run", label=None, **options):
    step = ["take_many", {"num_elements": count, **options}]
    return ["start", label, *step] if how == "start" else ["run", *step]


def grad(value, local_step=0):
    return ["run", "apply_grad", {"grad": value, "local_step": k(local_step)}]


def rows(indices, values, local_step=0, **options):
    given = {"grad_indices": k(indices), "grad_values": f(values), "local_step": k(local_step), **options}
    return ["run", "apply_grad", given]


PAIR = ["Barrier", {"types": ["float32", "float32"], "shapes": [[], []]}]
ONE = ["Barrier", {"types": ["float32"], "shapes": [[]]}]
CLOSE, CANCEL = ["run", "close", {}], ["run", "close", {"cancel_pending_enqueues": True}]
SIZES = [["run", "ready_size", {}], ["run", "incomplete_size", {}]]
SMALL = {"allow_small_batch": True}
MEAN = ["ConditionalAccumulator", {"dtype": "float32", "shape": [2]}]
SUM = ["ConditionalAccumulator", {"dtype": "float32", "shape": [2], "reduction_type": "SUM"}]
OPEN = ["ConditionalAccumulator", {"dtype": "float32"}]
ROWS = ["SparseConditionalAccumulator", {"dtype": "float32", "shape": [5, 2]}]
ROWS_SUM = ["SparseConditionalAccumulator", {"dtype": "float32", "shape": [None, 2], "reduction_type": "SUM"}]
TAKE = ["run", "take_grad", {"num_required": 1}]
COUNT = ["run", "num_accumulated", {}]
AREA = ["StagingArea", {"dtypes": ["float32"], "shapes": [[]], "capacity": 2}]
BYTES = ["StagingArea", {"dtypes": ["float32"], "shapes": [[2]], "memory_limit": 16}]
MAP = ["MapStagingArea", {"dtypes": ["float32", "float32"], "shapes": [[], []], "ordered": True}]
FULL = ["MapStagingArea", {"dtypes": ["float32", "float32"], "shapes": [[], []], "ordered": True, "capacity": 1}]
PUT, GET = "put", ["run", "get", {}]
SIZE, CLEAR = ["run", "size", {}], ["run", "clear", {}]
PARTS = ["run", "incomplete_size", {}]


def put(*values, how="run", label=None):
    step = ["put", {"values": [f(value) for value in values]}]
    return ["start", label, *step] if how == "start" else ["run", *step]


def put_at(key, values, indices=(0, 1), how="run", label=None):
    step = ["put", {"key": k(key), "vals": [f(value) for value in values], "indices": list(indices)}]
    return ["start", label, *step] if how == "start" else ["run", *step]


def get_at(key, how="run", label=None, **options):
    step = ["get", {"key": k(key), **options}]
    return ["start", label, *step] if how == "start" else ["run", *step]


def start(label, step):
    return ["start", label, *step[1:]]


def join(label):
    return ["join", label]


SCENARIOS = {
    # Barriers
    "tuples leave by the insertion that brought their key": [
        PAIR, insert(0, ["a"], [1.0]), insert(0, ["b"], [2.0]), insert(1, ["b"], [3.0]), insert(1, ["a"], [4.0]),
        *SIZES, take(2), *SIZES,
    ],
    "either component may come first": [
        PAIR, insert(1, ["a"], [1.0]), insert(0, ["b"], [2.0]), insert(0, ["a"], [3.0]), insert(1, ["b"], [4.0]),
        take(2),
    ],
    "a component cannot come twice": [PAIR, insert(0, ["a"], [1.0]), insert(0, ["a"], [2.0]), *SIZES],
    "a key that has left may come again": [ONE, insert(0, ["a"], [1.0]), insert(0, ["a"], [2.0]), take(2)],
    "taking waits": [
        ONE, take(2, "start", "t"), insert(0, ["a"], [1.0]), insert(0, ["b"], [2.0]), join("t"), *SIZES,
    ],
    "nothing is taken early, of none": [ONE, take(0), take(0, **SMALL)],
    "closed: new keys are refused, incomplete ones completed": [
        PAIR, insert(0, ["a"], [1.0]), CLOSE, insert(0, ["b"], [2.0]), insert(1, ["a"], [3.0]), take(1), take(1),
        *SIZES,
    ],
    "closed and empty: nothing can be inserted": [ONE, CLOSE, insert(0, ["a"], [1.0]), take(1)],
    "closed: too few can never be there": [ONE, insert(0, ["a"], [1.0]), CLOSE, take(2), take(1)],
    "closed: incomplete ones are waited for": [
        PAIR, insert(0, ["a", "b"], [1.0, 2.0]), CLOSE, take(2, "start", "t"), insert(1, ["a", "b"], [3.0, 4.0]),
        join("t"), take(1),
    ],
    "closed: a small batch is what is ready": [
        PAIR, insert(0, ["a", "b"], [1.0, 2.0]), insert(1, ["a"], [3.0]), CLOSE, take(5, **SMALL), take(5, **SMALL),
    ],
    "a small batch that was waited for before closing waits for incomplete ones": [
        PAIR, insert(0, ["a", "b"], [1.0, 2.0]), insert(1, ["a"], [3.0]), take(5, "start", "t", **SMALL), CLOSE,
        insert(1, ["b"], [4.0]), join("t"),
    ],
    "who waits when it is closed without hope fails": [
        ONE, insert(0, ["a"], [1.0]), take(3, "start", "t"), CLOSE, join("t"), *SIZES,
    ],
    "closing to cancel drops what is incomplete": [
        PAIR, insert(0, ["a", "b"], [1.0, 2.0]), insert(1, ["a"], [3.0]), CANCEL, *SIZES, insert(1, ["b"], [4.0]),
        take(2), take(1),
    ],
    "closing twice": [ONE, CLOSE, CLOSE],
    "closing again to cancel": [PAIR, insert(0, ["a"], [1.0]), CLOSE, CANCEL, *SIZES, CANCEL, CLOSE],
    "values of another shape": [ONE, insert(0, ["a"], [[1.0]]), insert(0, ["a", "b"], [1.0]), *SIZES],
    "values without elements": [["Barrier", {"types": ["float32"]}], insert(0, ["a"], [[]])],
    # Dense accumulators
    "the mean of all that came": [MEAN, grad([1.0, 2.0]), grad([3.0, 6.0]), grad([2.0, 1.0]), COUNT, TAKE, COUNT],
    "the sum of all that came": [SUM, grad([1.0, 2.0]), grad([3.0, 6.0]), TAKE],
    "stale gradients are dropped": [
        SUM, grad([1.0, 2.0]), TAKE, grad([8.0, 8.0]), COUNT, grad([1.0, 1.0], 1), grad([2.0, 2.0], 5), COUNT, TAKE,
    ],
    "the step can be set": [
        SUM, ["run", "set_global_step", {"new_global_step": k(3)}], grad([1.0, 1.0], 2), COUNT, grad([1.0, 1.0], 3),
        COUNT,
        TAKE, grad([1.0, 1.0], 3), COUNT, ["run", "set_global_step", {"new_global_step": k(0)}], grad([1.0, 1.0]),
        COUNT,
    ],
    "taking waits for so many": [
        MEAN, ["start", "t", "take_grad", {"num_required": 2}], grad([1.0, 2.0]), COUNT, grad([3.0, 4.0]),
        join("t"), COUNT,
    ],
    "who takes comes in order": [
        SUM, ["start", "s", "take_grad", {"num_required": 2}], ["start", "t", "take_grad", {"num_required": 1}],
        grad([1.0, 1.0]), grad([2.0, 2.0]), join("s"), grad([3.0, 3.0], 1), join("t"),
    ],
    "a number that is not positive": [
        MEAN, ["run", "take_grad", {"num_required": 0}], ["run", "take_grad", {"num_required": -1}],
    ],
    "gradients of another shape": [OPEN, grad([1.0, 2.0]), grad([1.0]), COUNT, TAKE, grad([1.0], 1), COUNT],
    # Sparse accumulators
    "rows are added by index": [
        ROWS_SUM, rows([1, 3], [[1.0, 1.0], [2.0, 2.0]]), rows([0, 1], [[4.0, 4.0], [5.0, 5.0]]), COUNT, TAKE, COUNT,
    ],
    "the mean of a row is over those that had it": [
        ROWS, rows([1, 3], [[1.0, 1.0], [2.0, 2.0]]), rows([1], [[3.0, 4.0]]), rows([0], [[7.0, 7.0]]), TAKE,
    ],
    "stale rows are dropped": [
        ROWS, rows([1], [[1.0, 1.0]]), TAKE, rows([1], [[1.0, 1.0]]), COUNT, rows([2], [[1.0, 1.0]], 1), TAKE,
    ],
    "rows of another width": [ROWS, rows([1], [[1.0]]), rows([1, 2], [[1.0, 1.0]]), COUNT],
    "a whole of another shape": [
        ROWS, rows([1], [[1.0, 1.0]], grad_shape=k([4, 2])), rows([1], [[1.0, 1.0]], grad_shape=k([5, 2])), TAKE,
    ],
    # Staging areas
    "first in first out": [AREA, put(1.0), put(2.0), SIZE, GET, GET, SIZE],
    "putting waits for room": [
        AREA, put(1.0), put(2.0), put(3.0, how="start", label="p"), SIZE, GET, join("p"), GET, GET,
    ],
    "getting waits for an element": [AREA, start("g", GET), put(7.0), join("g"), SIZE],
    "peeking leaves it there": [
        AREA, put(1.0), put(2.0), ["run", "peek", {"index": 0}], ["run", "peek", {"index": 1}], SIZE,
    ],
    "peeking waits": [AREA, put(1.0), ["start", "k", "peek", {"index": 1}], put(2.0), join("k"), SIZE],
    "clearing makes room": [AREA, put(1.0), put(2.0), put(3.0, how="start", label="p"), CLEAR, join("p"), SIZE, GET],
    "memory is bounded": [
        BYTES, put([1.0, 1.0]), put([2.0, 2.0]), put([3.0, 3.0], how="start", label="p"), SIZE, GET, join("p"), SIZE,
    ],
    "an element that never fits": [
        ["StagingArea", {"dtypes": ["float32"], "memory_limit": 4}], put([1.0, 2.0]), SIZE,
    ],
    # Staging areas by key
    "the least key first": [MAP, put_at(5, [1.0, 2.0]), put_at(2, [3.0, 4.0]), SIZE, GET, GET, SIZE],
    "by key": [MAP, put_at(5, [1.0, 2.0]), put_at(2, [3.0, 4.0]), get_at(5), SIZE],
    "getting waits for its key": [
        MAP, get_at(5, "start", "g"), put_at(2, [3.0, 4.0]), SIZE, put_at(5, [1.0, 2.0]), join("g"), SIZE,
    ],
    "an element comes in parts": [
        MAP, put_at(5, [2.0], [1]), SIZE, PARTS, get_at(5, "start", "g"), put_at(5, [1.0], [0]), join("g"), SIZE,
        PARTS,
    ],
    "a part comes once": [MAP, put_at(5, [2.0], [1]), put_at(5, [3.0], [1]), PARTS],
    "an element leaves in parts": [
        MAP, put_at(5, [1.0, 2.0]), get_at(5, indices=[1]), SIZE, get_at(5, indices=[1]), get_at(5), get_at(5,
        indices=[0]), SIZE,
    ],
    "peeking at a key leaves it there": [
        MAP, put_at(5, [1.0, 2.0]), ["run", "peek", {"key": k(5)}], ["run", "peek", {"key": k(5), "indices": [1]}],
        SIZE,
    ],
    "whole elements wait for room, parts do not": [
        FULL, put_at(1, [1.0, 1.0]), put_at(2, [2.0, 2.0], how="start", label="p"), put_at(3, [3.0], [0]), put_at(3,
        [3.0], [1]),
        SIZE, get_at(3), get_at(1), join("p"), SIZE,
    ],
    "clearing drops parts too": [MAP, put_at(1, [1.0, 1.0]), put_at(2, [1.0], [0]), CLEAR, SIZE, PARTS],
}  # fmt: skip


def plain(value):
    """Arrays and tuples as lists, bytes as text."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    return value.decode() if isinstance(value, bytes) else value


def typed(value, constant):
    """An argument, with tensors where a dtype is told."""
    if isinstance(value, dict):
        ((dtype, content),) = value.items()
        return constant(content, dtype)
    return [typed(item, constant) for item in value] if isinstance(value, list) else value


def outcome_of(error):
    return {"error": "InvalidArgumentError" if isinstance(error, (TypeError, ValueError)) else type(error).__name__}


class TensorFlow:
    """One scenario in TensorFlow: background runs are daemon threads, for some never end."""

    def __init__(self, tf, kinds, kind, options):
        self.tf = tf
        self.session = tf.Session()
        options = {key: [tf.as_dtype(item) for item in value] if key.endswith("types") else value
                   for key, value in options.items()}  # fmt: skip
        self.object = kinds[kind](**options)
        self.running = {}

    def build(self, method, arguments):
        given = {key: typed(value, lambda content, dtype: self.tf.constant(content, dtype))
                 for key, value in arguments.items()}  # fmt: skip
        return getattr(self.object, method)(**given)

    def run(self, method, arguments):
        try:
            return {"value": plain(self.session.run(self.build(method, arguments)))}
        except Exception as error:
            return outcome_of(error)

    def start(self, label, method, arguments):
        found = []
        fetches = self.build(method, arguments)

        def work():
            try:
                found.append({"value": plain(self.session.run(fetches))})
            except Exception as error:
                found.append(outcome_of(error))

        thread = self.running[label] = threading.Thread(target=work, daemon=True), found
        thread[0].start()
        thread[0].join(SETTLED)
        return found[0] if found else None

    def join(self, label):
        thread, found = self.running[label]
        thread.join(10 * SETTLED)
        return found[0] if found else None


def main():
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    import tensorflow.compat.v1 as tf
    from tensorflow.python.ops import data_flow_ops

    tf.disable_v2_behavior()
    table = []
    for name, ((kind, options), *steps) in SCENARIOS.items():
        with tf.Graph().as_default():
            scenario = TensorFlow(tf, vars(data_flow_ops), kind, options)
            outcomes = []
            for step in steps:
                outcomes.append(getattr(scenario, step[0])(*step[1:]))
                if scenario.running:
                    time.sleep(SETTLED)
        rows = [[step, outcome] for step, outcome in zip(steps, outcomes, strict=True)]
        table.append({"name": name, "kind": kind, "options": options, "steps": rows})
    print("[\n" + ",\n".join(json.dumps(row) for row in table) + "\n]", flush=True)
    os._exit(0)  # threads that wait for ever


if __name__ == "__main__":
    main()
