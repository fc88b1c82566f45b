"""The training of `replicas.py`: the program of each client, for one of several replicas or for all workers of a ring.

A replica has its own graph, whose variables are on parameter servers, and its share of the images. The client of a ring
has one graph for all workers, each of which has its own variables.
"""

import collections
import itertools
import statistics
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from train_digits import BATCH, NOISE, Digits, load_digits, net, steps_of

import aioflow as af

WAITING = 60.0
"""Seconds that tasks wait for each other, for example when one starts or restarts."""
CHECKPOINT_STEPS = 50
MAX_STALENESS = 16
VARIABLES = 4
"""Settings of the net."""
NEW_LINE = "\r\x1b[K"


# Shared by all processes


class Job(NamedTuple):
    """The settings of all processes. The folder has the token and will have the checkpoints."""

    cluster: af.train.ClusterSpec
    folder: str
    mode: str
    epochs: int

    @classmethod
    def of(cls, folder: str, mode: str, epochs: int) -> Self:
        """Return a job with the cluster that the folder describes."""
        return cls(af.train.ClusterSpec.from_json(f"{folder}/cluster.json"), folder, mode, epochs)

    def config(self, *filters: str) -> af.Config:
        """Return the configuration of a client that connects only to these tasks, or to all."""
        return af.Config(operation_timeout=WAITING, token_file=f"{self.folder}/token", device_filters=filters)

    @property
    def serving(self) -> af.Config:
        """Return the configuration of a task."""
        return af.Config(token_file=f"{self.folder}/token", file_roots=[self.folder])

    @property
    def home(self) -> str:
        """The job whose tasks have the variables; the first task has the global step."""
        return "worker" if self.mode == "allreduce" else "ps"

    @property
    def target(self) -> str:
        """The session target with the first such task as master."""
        return f"ws://{self.cluster.task_address(self.home, 0)}"

    @property
    def workers(self) -> int:
        """The number of workers."""
        return self.cluster.num_tasks("worker")

    @property
    def examples(self) -> int:
        """The number of images in a step."""
        together = {"async": 1, "sync": self.workers, "backup": self.workers - 1, "allreduce": self.workers}
        return BATCH * together[self.mode]

    @property
    def steps(self) -> int:
        """The number of steps in all epochs together."""
        seen, _ = load_digits()
        return max(1, steps_of(seen, self.epochs) * BATCH // self.examples)


class Tower(NamedTuple):
    """The net on one worker."""

    images: af.Tensor
    labels: af.Tensor
    noise: af.Tensor
    loss: af.Tensor
    accuracy: af.Tensor

    def feeds(self, digits: Digits, noise: float = NOISE) -> dict[af.Tensor, Any]:
        """Return the feeds for these digits."""
        return {self.images: digits.images, self.labels: digits.labels, self.noise: noise}


class Training(NamedTuple):
    """The graph and the operations of a client.

    Attributes:
        towers: the nets; each gets its own digits in each step.
        accepted: whether the gradient of a step was accepted.
        workers: number of training workers.
        staleness: the staleness of a step's gradient.
        hooks: the hooks that make a replica take part.
        optimizer: the optimizer of synchronous replicas, which knows the dropped gradients.
        init: gives the variables their first values, if initialising does not suffice.
    """

    graph: af.Graph
    towers: Sequence[Tower]
    loss: af.Tensor
    train: af.Operation
    accepted: af.Tensor
    workers: af.Tensor | None = None
    staleness: af.Tensor | None = None
    hooks: Sequence[af.train.SessionRunHook] = ()
    optimizer: af.train.SyncReplicasOptimizer | None = None
    init: af.Operation | None = None


def tower() -> Tower:
    """Build the net, its loss, and the number of digits that it reads correctly."""
    images = af.placeholder(af.float32, [None, 64], name="images")
    labels = af.placeholder(af.int32, [None], name="labels")
    noise = af.placeholder_with_default(0.0, [], name="noise")
    logits = net(images, noise)
    loss = af.reduce_mean(af.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
    hits = af.equal(af.argmax(logits, axis=1, output_type=af.int32), labels)
    return Tower(images, labels, noise, loss, af.reduce_mean(af.cast(hits, af.float32)))


def shared(job: Job, worker: str) -> Tower:
    """Build the net on that worker, with the variables on parameter servers or on the worker itself."""
    setter = af.train.replica_device_setter(cluster=job.cluster, worker_device=worker)
    with af.device(worker if setter is None else setter):
        return tower()


def global_step(job: Job) -> af.Variable:
    """Create the variable that counts the steps of all workers."""
    with af.device(f"/job:{job.home}/task:0"):
        return af.train.create_global_step()


def replica(job: Job, task: int) -> Training:
    """Build the graph of one of several replicas that share the variables on parameter servers."""
    graph = af.Graph()
    with graph.as_default():
        af.set_random_seed(1)
        one, step = shared(job, f"/job:worker/task:{task}"), global_step(job)
        if job.mode == "async":
            return free(graph, one, step, job, task)
        required = None if job.mode == "sync" else job.workers - 1
        opt = af.train.SyncReplicasOptimizer(optimizer(0.4, step, job.steps), required, job.workers, task_index=task)
        pairs = opt.compute_gradients(one.loss)
        train = opt.apply_gradients(pairs, step, examples=af.shape(one.labels)[0])
        hook = opt.make_session_run_hook(is_chief=task == 0)
        return Training(graph, [one], one.loss, train, opt.accepted, opt.num_replicas, hooks=[hook], optimizer=opt)


def free(graph: af.Graph, one: Tower, step: af.Variable, job: Job, task: int) -> Training:
    """Return an optimizer of asynchronous replicas with bounded staleness."""
    opt = af.train.AsyncReplicasOptimizer(optimizer(0.2, step, job.steps), MAX_STALENESS, task_index=task)
    train, hook = opt.minimize(one.loss, global_step=step), opt.make_session_run_hook()
    return Training(graph, [one], one.loss, train, af.constant(True), opt.num_replicas, opt.staleness, [hook])


def ring(job: Job) -> Training:
    """Build one graph for all workers. Each has the variables, which stay equal to the last bit."""
    graph = af.Graph()
    with graph.as_default():
        af.set_random_seed(1)
        step = global_step(job)
        with af.device("/job:worker/task:0"):
            opt = optimizer(0.4, step, job.steps)
        towers, gradients = [], []
        for task in range(job.workers):
            with af.name_scope(f"tower{task}"):
                towers.append(shared(job, f"/job:worker/task:{task}"))
                gradients.append(opt.compute_gradients(towers[-1].loss, af.trainable_variables()[-VARIABLES:]))
        reduced = [pair for pairs in af.train.all_reduce_gradients(gradients) for pair in pairs]
        with af.device("/job:worker/task:0"):
            loss = af.add_n([each.loss for each in towers]) / float(job.workers)
        with af.control_dependencies([af.global_variables_initializer()]):
            init = af.train.broadcast_variables([[variable for _, variable in pairs] for pairs in gradients])
        return Training(graph, towers, loss, opt.apply_gradients(reduced, step), af.constant(True), init=init)


def optimizer(rate: float, step: af.Variable, steps: int) -> af.train.Optimizer:
    """Return an optimizer whose learning rate falls to 0 at the last step."""
    return af.train.GradientDescentOptimizer(af.train.polynomial_decay(rate, step, steps, end_learning_rate=0.0))


# One client


class Report(af.train.SessionRunHook):
    """Reports the events of one client during training and at the end."""

    def __init__(self, name: str, training: Training, is_chief: bool) -> None:
        self._name = name
        self._training = training
        self._is_chief = is_chief
        self._ends: list[float] = []
        self._staleness: list[int] = []

    async def after_create_session(self, session: af.Session, coord: af.train.Coordinator) -> None:
        """Report the step at which training begins."""
        step = af.train.get_global_step(session.graph)
        assert step is not None
        self.say(f"trains from step {await session.run(step)} on")

    def before_run(self, run_context: af.train.SessionRunContext) -> af.train.SessionRunArgs:
        """Fetch the staleness of the gradient, if the optimizer knows it."""
        return af.train.SessionRunArgs(self._training.staleness)

    def after_run(self, run_context: af.train.SessionRunContext, run_values: af.train.SessionRunValues) -> None:
        """Record the staleness and the time."""
        self._ends.append(time.perf_counter())
        if run_values.results is not None:
            self._staleness.append(int(run_values.results))

    def after_recovery(self, session: af.Session, recovery: af.train.Recovery) -> None:
        """Report the lost tasks and the cost. The chief leaves that to its progress hook."""
        if not self._is_chief:
            self.say(str(recovery))

    async def end(self, session: af.Session) -> None:
        """Report the totals; the chief also reports the dropped gradients of each worker."""
        steps = [after - before for before, after in itertools.pairwise(self._ends)] or [0.0]
        text = f"{len(self._ends)} steps, of {statistics.median(steps) * 1e3:.1f} ms, the longest of {max(steps):.2f} s"
        if self._staleness:
            text += f"; staleness {statistics.mean(self._staleness):.1f}, at most {max(self._staleness)}"
        self.say(text)
        if self._is_chief and self._training.optimizer is not None:
            self._tell(await self._training.optimizer.dropped(session))

    def _tell(self, drops: Iterable[Any]) -> None:
        """Report the dropped gradients by replica and reason."""
        found: dict[str, list[int]] = {}
        for drop in drops:
            found.setdefault(f"worker {drop.replica}, {drop.reason.name.lower()}", []).append(drop.examples)
        for whose, examples in sorted(found.items()):
            self.say(f"dropped of {whose}: {len(examples)} gradients, {sum(examples)} examples")

    def say(self, text: str) -> None:
        """Print a line."""
        say(f"{self._name}: {text}")


def say(text: str) -> None:
    """Print a line in one piece, and on a terminal below the progress bar."""
    sys.stdout.write(f"{NEW_LINE if sys.stdout.isatty() else ''}{text}\n")
    sys.stdout.flush()


async def train(target: str, job: Job, training: Training, task: int, name: str) -> None:
    """Train until all steps of all workers are done, each tower with its share of the digits. Task 0 is the chief."""
    tasks = range(task, task + len(training.towers))
    batches = zip(*[endless(share(job, each), np.random.default_rng(each)) for each in tasks], strict=True)
    again: list[Sequence[Digits]] = []
    async with monitored(target, job, training, task, name) as session:
        while not session.should_stop():
            shown = again.pop() if again else next(batches)
            feeds = [tower.feeds(digits) for tower, digits in zip(training.towers, shown, strict=True)]
            accepted, _ = await session.run([training.accepted, training.train], dict(collections.ChainMap(*feeds)))
            if not accepted:
                again.append(shown)


def monitored(target: str, job: Job, training: Training, task: int, name: str) -> af.train.MonitoredSession:
    """Return a session that the chief prepares and saves, and that recovers when tasks are lost."""
    shown = af.train.Progress(job.steps, job.examples, sys.stdout)
    progress = af.train.ProgressHook(
        training.loss, workers=training.workers, staleness=training.staleness, progress=shown
    )
    filters = [] if job.mode == "allreduce" else ["/job:ps", f"/job:worker/task:{task}"]
    with training.graph.as_default():
        return af.train.MonitoredTrainingSession(
            target,
            is_chief=task == 0,
            checkpoint_dir=f"{job.folder}/checkpoints",
            scaffold=af.train.Scaffold(init_op=training.init),
            hooks=[af.train.StopAtStepHook(last_step=job.steps), *training.hooks, Report(name, training, task == 0)],
            chief_only_hooks=[progress],
            save_checkpoint_secs=None,
            save_checkpoint_steps=CHECKPOINT_STEPS,
            config=job.config(*filters),
            log_step_count_steps=None,
            max_wait_secs=WAITING,
            restore="lost" if job.mode == "async" else "all",
            examples_per_step=job.examples,
        )


def share(job: Job, task: int) -> Digits:
    """Return the digits of one worker."""
    seen, _ = load_digits()
    return Digits(seen.images[task :: job.workers], seen.labels[task :: job.workers])


def endless(digits: Digits, random: np.random.Generator) -> Iterator[Digits]:
    """Yield batches of the digits without end, each epoch in another random order."""
    while True:
        yield from digits.batches(random)
