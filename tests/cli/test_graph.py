"""`aioflow graph`: stored graphs as trees of scopes, and for Graphviz."""

import asyncio
import re

import pytest

import aioflow as af
from aioflow import cli
from aioflow.cli.scope_tree import dot, scope_of, tree
from aioflow.dashboard.messages import Graph, GraphNode

HOSTILE = '"];\nn0 -> "<script>\\'


def build():
    with af.Graph().as_default() as graph:
        x = af.placeholder(af.float32, [None, 2], name="x")
        with af.name_scope("outer"):
            with af.name_scope("inner"):
                x = af.tanh(x, name="first")
            with af.control_dependencies([af.no_op(name="before")]):
                x = af.exp(x, name="second")
        for _ in range(20):
            x = af.negative(x)
    return graph, x


@pytest.fixture
def stored(tmp_path):
    """A graph as JSON, as msgpack, and as a saved model."""
    graph, last = build()
    (tmp_path / "graph.json").write_text(graph.as_graph_def().to_json())
    (tmp_path / "graph.msgpack").write_bytes(graph.as_graph_def().to_msgpack())
    signature = af.saved_model.Signature(inputs={"x": graph.get_tensor_by_name("x:0")}, outputs={"y": last})

    async def save():
        async with af.Session(graph=graph) as session:
            await af.saved_model.save(session, tmp_path / "model", signatures={"serving_default": signature})

    asyncio.run(save())
    return tmp_path


@pytest.mark.real
@pytest.mark.parametrize("name", ["graph.json", "graph.msgpack", "model"])
def test_a_stored_graph_is_a_tree_of_scopes_with_counts(stored, name, capsys):
    assert cli.main(["graph", str(stored / name)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "24 operations: 20 negative, 1 placeholder, 1 tanh, 1 no_op, …"
    assert "├─ outer/  3: 1 tanh, 1 no_op, 1 exp" in lines
    assert "│  ├─ inner/  1: 1 tanh" in lines
    assert "│  │  └─ first  tanh  float32 [?, 2]" in lines
    assert "│  └─ second  exp  float32 [?, 2]" in lines
    assert lines[-1] == "└─ 10 further operations: 10 negative"
    assert cli.main(["graph", str(stored / name), "--depth", "0"]) == 0
    closed = capsys.readouterr().out
    assert "outer/  3" in closed
    assert "inner" not in closed


@pytest.mark.real
def test_graphviz_gets_every_operation_and_edge(stored, capsys):
    assert cli.main(["graph", str(stored / "graph.json"), "--dot"]) == 0
    text = capsys.readouterr().out
    assert len(re.findall(r"^ *n\d+ \[label=", text, re.M)) == 24
    assert len(re.findall(r"^ *n\d+ -> n\d+;$", text, re.M)) == 22
    assert len(re.findall(r"style=dashed", text)) == 1
    assert text.count("{") == text.count("}") == 3
    assert 'subgraph "cluster outer/inner" {' in text


def test_hostile_names_stay_texts():
    node = GraphNode(f"a/{HOSTILE}", HOSTILE, (), (), (), "", "")
    (line,) = [line for line in dot(Graph(1, (node,))) if "label=" in line and "subgraph" not in line and "n0" in line]
    assert line.count("\n") == 0
    assert re.fullmatch(r' *n0 \[label="(?:[^"\\]|\\.)*"\];', line)
    assert list(tree(scope_of(Graph(1, ())), 2)) == ["no operations"]
    assert next(tree(scope_of(Graph(1, (node,), left_out=7)), 0)).startswith("1 operations, 7 more are not shown: ")


@pytest.mark.parametrize(
    ("content", "text"), [("{}", "holds no graph"), ("nonsense", "holds no graph"), (None, "No such file")]
)
def test_another_file_ends_with_1(content, text, tmp_path, capsys):
    if content is not None:
        (tmp_path / "file").write_text(content)
    assert cli.main(["graph", str(tmp_path / "file")]) == 1
    assert text in capsys.readouterr().err


def test_a_depth_is_not_negative(capsys):
    with pytest.raises(SystemExit):
        cli.main(["graph", "file", "--depth", "-1"])
    assert "--depth: invalid _depth value" in capsys.readouterr().err
