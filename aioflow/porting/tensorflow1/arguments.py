"""Changes arguments whose names or forms differ: feeds, sessions of evaluations, configurations and options."""

import ast
from collections.abc import Mapping
from typing import Final

from aioflow.porting.tensorflow1.changes import Changes
from aioflow.porting.tensorflow1.kinds import CONFIG, VALUE, CoroutineFunction, Live, Method, TensorFlowName

_COUNTED: Final = "arguments"
_OF_RUNS: Final = {"feed_dict": "feeds", "feed_list": "feeds", "run_metadata": "metadata"}
_OF_FUNCTIONS: Final[Mapping[str, Mapping[str, str]]] = {
    "train.SessionRunArgs": _OF_RUNS,
    "train.Server": {"server_or_cluster_def": "cluster"},
    "ConfigProto": {"intra_op_parallelism_threads": "compute_threads"},
}
_DROPPED: Final[Mapping[str, frozenset[str]]] = {
    "train.Server": frozenset({"protocol", "start"}),
    "ConfigProto": frozenset(
        {"gpu_options", "inter_op_parallelism_threads", "use_per_session_threads", "graph_options"}
    ),
}
"""Arguments without a counterpart, which change no result."""
_INDEX: Final = 2
"""The place of `task_index` among the arguments of a server."""


def change_arguments(changes: Changes) -> None:
    """Change the arguments of all calls in the program."""
    for node in changes.nodes:
        if isinstance(node, ast.Call):
            kind = changes.inference.kind(node.func)
            if isinstance(kind, TensorFlowName):
                _change_function(changes, node, kind.path)
            elif isinstance(kind, (Method, CoroutineFunction)):
                _rename(changes, node, _OF_RUNS)
                _change_session(changes, node, kind)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith("grpc://"):
            _change_scheme(changes, node)
        elif isinstance(node, ast.Assign):
            _change_setting(changes, node)


def _rename(changes: Changes, call: ast.Call, names: Mapping[str, str]) -> None:
    for keyword in call.keywords:
        if keyword.arg is not None and keyword.arg in names:
            start = changes.script.start(keyword)
            changes.edits.replace(start, start + len(keyword.arg), names[keyword.arg])
            changes.handled.add(keyword)
            changes.counts[_COUNTED] += 1


def _change_function(changes: Changes, call: ast.Call, path: str) -> None:
    _rename(changes, call, _OF_FUNCTIONS.get(path, {}))
    for keyword in call.keywords:
        if keyword.arg in _DROPPED.get(path, ()):
            _drop(changes, call, keyword)
    if path == "RunOptions":
        _change_options(changes, call)
    if path == "train.SyncReplicasOptimizer" and all(each.arg != "task_index" for each in call.keywords):
        _number_replica(changes, call)


def _number_replica(changes: Changes, call: ast.Call) -> None:
    """Give a replica its number: that of its server."""
    servers = [
        node
        for node in changes.nodes
        if isinstance(node, ast.Call) and changes.inference.kind(node.func) == TensorFlowName("train.Server")
    ]
    given = [each.value for server in servers for each in server.keywords if each.arg == "task_index"]
    given += [server.args[_INDEX] for server in servers if len(server.args) > _INDEX]
    arguments: list[ast.expr | ast.keyword] = [*call.args, *call.keywords]
    last = max(arguments, key=changes.script.end, default=None)
    if last is None or len(given) != 1 or not _is_known(changes, given[0], call):
        changes.note(call, "give each replica its own number: task_index=")
        return
    changes.edits.insert(changes.script.end(last), f", task_index={changes.script.source(given[0])}")
    changes.counts[_COUNTED] += 1


def _is_known(changes: Changes, value: ast.expr, at: ast.expr) -> bool:
    """Whether an expression means the same at another place."""
    names = [node for node in ast.walk(value) if isinstance(node, ast.Name)]
    return all(changes.inference.home(each.id, each) is changes.inference.home(each.id, at) for each in names)


def _drop(changes: Changes, call: ast.Call, dropped: ast.keyword) -> None:
    """Remove an argument, and the comma between it and its neighbour."""
    script = changes.script
    changes.handled.add(dropped)
    given: list[ast.expr | ast.keyword] = sorted([*call.args, *call.keywords], key=script.start)
    place = given.index(dropped)
    if place > 0:
        changes.edits.replace(script.end(given[place - 1]), script.end(dropped), "")
    elif len(given) > 1:
        changes.edits.replace(script.start(dropped), script.start(given[1]), "")
    else:
        changes.edits.replace(script.start(dropped), script.end(dropped), "")
    changes.counts[_COUNTED] += 1


def _change_options(changes: Changes, call: ast.Call) -> None:
    script = changes.script
    for keyword in call.keywords:
        start, end = script.start(keyword), script.end(keyword)
        if keyword.arg == "trace_level":
            traces = not ast.unparse(keyword.value).endswith("NO_TRACE")
            changes.edits.replace(start, end, f"trace={traces}")
            changes.handled.add(keyword)
        elif keyword.arg == "timeout_in_ms":
            changes.edits.replace(start, end, f"timeout=({script.source(keyword.value)}) / 1000")
            changes.handled.add(keyword)


def _change_session(changes: Changes, call: ast.Call, kind: Method | CoroutineFunction) -> None:
    """Make `tensor.eval(session=sess)` a call of `sess.run`."""
    if not (isinstance(kind, Method) and kind.owner is VALUE and kind.name in ("eval", "run")):
        return
    session = next((each for each in call.keywords if each.arg == "session"), None)
    value = session.value if session else call.args[1] if len(call.args) > 1 else None
    if value is None or not isinstance(call.func, ast.Attribute):
        return
    script, close = changes.script, changes.script.end(call) - 1
    dot = script.text.rindex(".", 0, script.end(call.func) - len(kind.name))
    feeds = next((each.value for each in call.keywords if each.arg == "feed_dict"), call.args[0] if call.args else None)
    changes.edits.insert(script.start(call), f"{script.source(value)}.run(")
    if feeds is None:
        changes.edits.replace(dot, close, "")
    else:
        changes.edits.replace(dot, script.start(feeds), ", ")
        changes.edits.replace(script.end(feeds), close, "")
    changes.counts[_COUNTED] += 1


def _change_scheme(changes: Changes, node: ast.Constant) -> None:
    start = changes.script.start(node)
    if changes.script.is_placed(node):
        at = changes.script.text.index("grpc://", start)
        changes.edits.replace(at, at + len("grpc"), "ws")


def _change_setting(changes: Changes, node: ast.Assign) -> None:
    """Turn a setting of a ConfigProto, which is an argument of Config, into a comment."""
    target = node.targets[0]
    owner = target.value if isinstance(target, ast.Attribute) else None
    while isinstance(owner, ast.Attribute):
        owner = owner.value
    if owner is None or not isinstance(kind := changes.inference.kind(owner), Live) or kind is not CONFIG:
        return
    text = ast.unparse(target)
    if ".gpu_options." in text:
        changes.note(node, "GPU memory grows with its use; Config(memory_limit=) limits it")
    else:
        changes.note(node, f"a Config does not change: give it to af.Config as {text.rpartition('.')[2]}=")
    changes.edits.comment_out(node)
