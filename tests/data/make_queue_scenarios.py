"""Writes queue_scenarios.json: what queues of TensorFlow do, step by step, for aioflow's to be compared with.

    python tests/data/make_queue_scenarios.py > tests/data/queue_scenarios.json

It needs TensorFlow. A scenario is a queue and a list of steps, each of which is a list: what it does, then arguments.

    run OP ...             run an operation to its end
    start NAME OP ...      begin to run one, and let it come as far as it comes without others
    join NAME              what the run came to
    limited OP ...         run one with a time limit that passes

OP is enqueue, enqueue_many, dequeue, dequeue_many, dequeue_up_to, close, cancel (close and cancel pending enqueues),
size, is_closed. What a step comes to is a value, the name of an error, "pending" for what was started and has not
ended, or null for an operation. Where aioflow differs on purpose the step ends with a dict: {"aioflow": what it comes
to there, "why": the reason}.
"""

import contextlib
import json
import os
import sys
import threading
import time

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import tensorflow.compat.v1 as tf

PAUSE = 0.25
LIMIT = 400
SCALARS = {"kind": "FIFOQueue", "capacity": 3, "shapes": [[]]}
TAKES_NONE = "a waiting dequeue_many takes nothing until it can take all"


def by_decision(result):
    return {"aioflow": result, "why": TAKES_NONE}


def shuffled(capacity, least, seed=7):
    kind = "RandomShuffleQueue"
    return {"kind": kind, "capacity": capacity, "min_after_dequeue": least, "shapes": [[]], "seed": seed}


def padding(capacity=10):
    return {"kind": "PaddingFIFOQueue", "capacity": capacity, "shapes": [[None]]}


def by_priority(capacity=10):
    return {"kind": "PriorityQueue", "capacity": capacity, "shapes": [[]]}


SCENARIOS = {
    "elements come out in order": (
        SCALARS,
        [["run", "enqueue", 1], ["run", "enqueue_many", [2, 3]], ["run", "size"], ["run", "dequeue"],
         ["run", "dequeue_many", 2], ["run", "size"]],
    ),
    "a full queue holds back who enqueues": (
        SCALARS,
        [["run", "enqueue_many", [1, 2, 3]], ["start", "a", "enqueue", 4], ["start", "b", "enqueue", 5],
         ["run", "dequeue"], ["join", "a"], ["run", "size"], ["run", "dequeue_many", 3], ["join", "b"],
         ["run", "dequeue"]],
    ),
    "enqueue_many trickles in": (
        SCALARS,
        [["start", "a", "enqueue_many", [1, 2, 3, 4, 5]], ["run", "size"], ["run", "dequeue"], ["run", "dequeue"],
         ["join", "a"], ["run", "dequeue_many", 3]],
    ),
    "enqueue_many that ends half-way leaves what is in": (
        SCALARS,
        [["run", "enqueue", 1], ["limited", "enqueue_many", [2, 3, 4, 5]], ["run", "size"],
         ["run", "dequeue_many", 3], ["run", "size"]],
    ),
    "who dequeues waits in order": (
        SCALARS,
        [["start", "a", "dequeue"], ["start", "b", "dequeue"], ["run", "enqueue", 1], ["join", "a"],
         ["run", "enqueue", 2], ["join", "b"]],
    ),
    "a large dequeue_many at the head holds back the small ones behind": (
        SCALARS,
        [["start", "a", "dequeue_many", 2], ["start", "b", "dequeue"], ["run", "enqueue", 1], ["run", "enqueue", 2],
         ["join", "a"], ["run", "enqueue", 3], ["join", "b"]],
    ),
    "dequeue_many of more than the capacity": (
        SCALARS,
        [["start", "a", "dequeue_many", 5], ["run", "enqueue_many", [1, 2, 3, 4, 5, 6]], ["join", "a"],
         ["run", "size"], ["run", "dequeue"]],
    ),
    "dequeue_many counts what it has not taken": (
        SCALARS,
        [["run", "enqueue_many", [1, 2]], ["start", "a", "dequeue_many", 3],
         ["run", "size", by_decision(2)], ["run", "enqueue", 3], ["join", "a"], ["run", "size"]],
    ),
    "a time limit in dequeue_many": (
        SCALARS,
        [["run", "enqueue_many", [1, 2, 3]], ["limited", "dequeue_many", 5], ["run", "size", by_decision(3)]],
    ),
    "a time limit in dequeue_many of a shuffle queue": (
        shuffled(10, 0),
        [["run", "enqueue_many", [1, 2, 3]], ["limited", "dequeue_many", 5], ["run", "size", by_decision(3)]],
    ),
    "a time limit in dequeue": (
        SCALARS,
        [["limited", "dequeue"], ["run", "enqueue", 1], ["run", "size"], ["run", "dequeue"]],
    ),
    "a time limit in enqueue": (
        SCALARS,
        [["run", "enqueue_many", [1, 2, 3]], ["limited", "enqueue", 4], ["run", "dequeue_many", 3], ["run", "size"]],
    ),
    "nothing many times": (
        SCALARS,
        [["run", "dequeue_many", 0], ["run", "dequeue_up_to", 0], ["run", "enqueue_many", []], ["run", "close"],
         ["run", "dequeue_many", 0], ["run", "dequeue_up_to", 0], ["run", "enqueue_many", []]],
    ),
    "a closed queue gives what it has and takes nothing": (
        SCALARS,
        [["run", "enqueue_many", [1, 2]], ["run", "is_closed"], ["run", "close"], ["run", "is_closed"],
         ["run", "enqueue", 3], ["run", "enqueue_many", [3]], ["run", "dequeue"], ["run", "dequeue"],
         ["run", "dequeue"], ["run", "dequeue_many", 1], ["run", "dequeue_up_to", 1]],
    ),
    "closing twice": (SCALARS, [["run", "close"], ["run", "close"], ["run", "cancel"]]),
    "closing ends who waits to dequeue": (
        SCALARS,
        [["start", "a", "dequeue"], ["start", "b", "dequeue_many", 2], ["start", "c", "dequeue_up_to", 2],
         ["run", "close"], ["join", "a"], ["join", "b"], ["join", "c"]],
    ),
    "closing with too little left": (
        SCALARS,
        [["run", "enqueue_many", [1, 2]], ["start", "a", "dequeue_many", 3], ["run", "close"], ["join", "a"],
         ["run", "size"], ["run", "dequeue_many", 3], ["run", "dequeue_up_to", 3], ["run", "dequeue_up_to", 3]],
    ),
    "closing gives dequeue_up_to what is left": (
        SCALARS,
        [["run", "enqueue_many", [1, 2]], ["start", "a", "dequeue_up_to", 3], ["run", "close"], ["join", "a"],
         ["run", "size"]],
    ),
    "closing waits for who enqueued before": (
        SCALARS,
        [["run", "enqueue_many", [1, 2, 3]], ["start", "a", "enqueue", 4], ["start", "b", "close"],
         ["start", "c", "enqueue", 5], ["run", "is_closed"], ["run", "dequeue"], ["join", "a"], ["join", "b"],
         ["join", "c"], ["run", "is_closed"], ["run", "dequeue_many", 3], ["run", "dequeue"]],
    ),
    "dequeue_up_to waits for pending enqueues of a queue that is to be closed": (
        SCALARS,
        [["run", "enqueue_many", [1, 2, 3]], ["start", "a", "enqueue_many", [4, 5, 6]], ["start", "b", "close"],
         ["run", "dequeue_up_to", 5], ["join", "a"], ["join", "b"], ["run", "dequeue_up_to", 5]],
    ),
    "closing and cancelling ends who waits to enqueue": (
        SCALARS,
        [["run", "enqueue_many", [1, 2, 3]], ["start", "a", "enqueue", 4], ["start", "b", "enqueue_many", [5, 6]],
         ["run", "cancel"], ["join", "a"], ["join", "b"], ["run", "dequeue_many", 3], ["run", "dequeue"]],
    ),
    "cancelling while a close waits": (
        SCALARS,
        [["run", "enqueue_many", [1, 2, 3]], ["start", "a", "enqueue", 4], ["start", "b", "close"],
         ["run", "cancel"], ["join", "a"], ["join", "b"], ["run", "is_closed"]],
    ),
    "an unbounded queue": (
        {"kind": "FIFOQueue", "capacity": -1, "shapes": [[]]},
        [["run", "enqueue_many", list(range(100))], ["run", "size"], ["run", "dequeue_many", 100]],
    ),
    "vectors are stacked": (
        {"kind": "FIFOQueue", "capacity": 3, "shapes": [[2]]},
        [["run", "enqueue", [1, 2]], ["run", "enqueue_many", [[3, 4], [5, 6]]], ["run", "dequeue_many", 2],
         ["run", "dequeue"]],
    ),
    "a shuffle queue keeps some back while it is open": (
        shuffled(10, 2),
        [["run", "enqueue_many", [1, 1, 1]], ["run", "dequeue"], ["start", "a", "dequeue"], ["run", "size"],
         ["run", "enqueue", 1], ["join", "a"], ["start", "b", "dequeue_many", 2], ["run", "close"], ["join", "b"],
         ["run", "size"]],
    ),
    "a shuffle queue ends when it is closed": (
        shuffled(10, 2),
        [["run", "enqueue_many", [1, 1]], ["start", "a", "dequeue"], ["run", "close"], ["join", "a"],
         ["run", "dequeue_up_to", 4], ["run", "dequeue"]],
    ),
    "a dequeue_many of a shuffle queue that needs more than its capacity": (
        shuffled(4, 2),
        [["start", "a", "dequeue_many", 4], ["run", "enqueue_many", [1, 1, 1, 1, 1, 1]], ["join", "a"],
         ["run", "size"]],
    ),
    "a padding queue fills up with zeros": (
        padding(),
        [["run", "enqueue", [1]], ["run", "enqueue", [2, 3, 4]], ["run", "enqueue", []], ["run", "dequeue_many", 3],
         ["run", "enqueue_many", [[5, 6], [7, 8]]], ["run", "enqueue", [9]], ["run", "dequeue_many", 3],
         ["run", "dequeue_many", 0], ["run", "enqueue", [1, 2]], ["run", "close"], ["run", "dequeue_up_to", 5]],
    ),
    "priorities": (
        by_priority(),
        [["run", "enqueue", [5, 0]], ["run", "enqueue", [1, 1]], ["run", "enqueue_many", [[5, 1], [2, 3]]],
         ["run", "dequeue"], ["run", "dequeue_many", 2], ["run", "close"],
         ["run", "dequeue_up_to", 4, {"aioflow": [[5], [2]], "why": "dequeue_up_to is the same for all queues"}],
         ["run", "dequeue"]],
    ),
    "who is most urgent when somebody comes": (
        by_priority(2),
        [["run", "enqueue", [5, 0]], ["run", "enqueue", [3, 1]], ["start", "a", "enqueue", [1, 2]],
         ["run", "dequeue"], ["join", "a"], ["run", "dequeue"], ["run", "dequeue"]],
    ),
}  # fmt: skip


def make(spec):
    options = dict(spec)
    kind, capacity, shapes = options.pop("kind"), options.pop("capacity"), options.pop("shapes")
    if kind == "RandomShuffleQueue":
        return tf.RandomShuffleQueue(capacity, options["min_after_dequeue"], tf.int32, shapes, seed=options["seed"])
    return getattr(tf, kind)(capacity, tf.int32, shapes)


class Run(threading.Thread):
    """One run of an operation, on a thread."""

    def __init__(self, session, operation, limit=None):
        super().__init__(daemon=True)
        self.result = "pending"
        self._work = session, operation, limit
        self.start()

    def run(self):
        session, operation, limit = self._work
        options = None if limit is None else tf.RunOptions(timeout_in_ms=limit)
        try:
            self.result = plain(session.run(operation, options=options))
        except tf.errors.OpError as error:
            self.result = type(error).__name__


def plain(value):
    if isinstance(value, list):
        return [plain(item) for item in value]
    return value.tolist() if hasattr(value, "tolist") else value


def operation(queue, kind, *arguments):
    if kind == "cancel":
        return queue.close(cancel_pending_enqueues=True)
    if isinstance(queue, tf.PriorityQueue) and kind in ("enqueue", "enqueue_many"):
        priority, value = arguments[0]
        return getattr(queue, kind)([tf.constant(priority, tf.int64), tf.constant(value, tf.int32)])
    if kind in ("enqueue", "enqueue_many"):
        return getattr(queue, kind)([tf.constant(arguments[0], tf.int32)])
    return getattr(queue, kind)(*arguments)


def play(spec, steps):
    """What each step comes to."""
    results, runs = [], {}
    with tf.Graph().as_default(), tf.Session() as session:
        queue = make(spec)
        for step in steps:
            what, *arguments = [part for part in step if not isinstance(part, dict)]
            if what == "join":
                runs[arguments[0]].join(5)
                results.append(runs[arguments[0]].result)
                continue
            name = arguments.pop(0) if what == "start" else None
            run = Run(session, operation(queue, *arguments), LIMIT if what == "limited" else None)
            if name is not None:
                runs[name] = run
                time.sleep(PAUSE)
            else:
                run.join(5)
            results.append(run.result)
            time.sleep(PAUSE / 5)
    return results


def main():
    tf.disable_eager_execution()
    made = []
    for name, (spec, steps) in SCENARIOS.items():
        print(name, file=sys.stderr)
        with contextlib.redirect_stdout(sys.stderr):
            results = play(spec, steps)
        pairs = [{"step": step, "result": result} for step, result in zip(steps, results, strict=True)]
        made.append({"name": name, "queue": spec, "steps": pairs})
    lines = ",\n".join(" " + json.dumps(scenario) for scenario in made)
    print(f'{{"tensorflow": "{tf.__version__}", "scenarios": [\n{lines}\n]}}')


main()
