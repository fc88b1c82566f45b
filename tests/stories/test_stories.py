"""What the white paper [P15] and the OSDI paper [P16] promise of distributed execution, section by section.

Each section below has stories in this folder, and each story says in its docstring which section it tells of.
"""

import ast
import re
from pathlib import Path

SECTIONS = {
    "P15 section 2": "programming model: sessions are extended and run; variables survive runs",
    "P15 section 3": "client, master and workers; the names of devices",
    "P15 section 3.2.1": "node placement",
    "P15 section 3.2.2": "cross-device communication",
    "P15 section 3.3": "distributed execution, fault tolerance",
    "P15 section 4.2": "partial execution",
    "P15 section 4.3": "device constraints",
    "P15 section 4.4": "control flow over several devices",
    "P15 section 4.5": "input operations",
    "P15 section 4.6": "queues",
    "P15 section 4.7": "containers",
    "P15 section 5.1": "common subexpressions",
    "P15 section 5.2": "data communication and memory: when receives begin",
    "P15 section 5.3": "asynchronous kernels",
    "P15 section 5.5": "lossy compression",
    "P15 section 7": "data parallel, model parallel, and pipelined training",
    "P15 section 9.2": "performance tracing",
    "P16 section 3.1": "tensors, variables, queues",
    "P16 section 3.2": "partial and concurrent execution",
    "P16 section 3.3": "distributed execution",
    "P16 section 3.4": "dynamic control flow",
    "P16 section 4.1": "differentiation and optimization",
    "P16 section 4.2": "very large models",
    "P16 section 4.3": "fault tolerance",
    "P16 section 4.4": "synchronous replica coordination",
    "P16 section 5": "the master's optimisations",
}


def stories():
    """Each test of this folder but those of this file, with the section that its docstring names."""
    for file in sorted(Path(__file__).parent.glob("test_story_*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                named = re.match(r"\[(P1[56] section [\d.]+)\] \w", ast.get_docstring(node) or "")
                yield f"{file.name}: {node.name}", named and named[1]


def test_each_story_names_its_section_and_each_section_has_a_story():
    told = dict(stories())
    assert {name: section for name, section in told.items() if section not in SECTIONS} == {}
    assert SECTIONS.keys() - set(told.values()) == set()
