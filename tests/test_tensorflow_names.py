"""docs/tensorflow-names.md: it tells the truth of each name, and the names that are there do not become fewer."""

import re
from collections import Counter
from pathlib import Path

import aioflow as af
from aioflow.porting.tensorflow1.names import LEFT_OUT, name_states

PAGE = (Path(__file__).parents[1] / "docs" / "tensorflow-names.md").read_text()
PRESENT = 1813
"""So many of TensorFlow's names are there. It may only rise."""
ABSENT = object()


def listed():
    """The state of each name that the page lists."""
    module, states = [], {}
    for line in PAGE.splitlines():
        if line.startswith("## "):
            module = line[3:].split(".")[1:]
        elif row := re.match(r"\| `(\w+)` \| (same|differs|missing) \|", line):
            states[".".join([*module, row[1]])] = row[2]
    return states


def is_there(path):
    found = af
    for name in path.split("."):
        found = getattr(found, name, ABSENT)
    return found is not ABSENT


def test_each_name_is_there_or_missing_as_the_page_says():
    assert [path for path, state in listed().items() if is_there(path) != (state != "missing")] == []


def test_the_table_of_aioflow_port_has_the_states_of_the_page():
    table = {path: row.state for path, row in name_states().items() if row.state != LEFT_OUT}
    assert table == listed()
    rows = {(row.path.rpartition(".")[2], row.state, row.text) for row in name_states().values()}
    written = re.findall(r"^\| `(\w+)` \| (same|differs|missing) \| (.*) \|$", PAGE, re.MULTILINE)
    assert {(name, state, text.strip()) for name, state, text in written} <= rows


def test_the_page_counts_its_rows_and_they_do_not_become_fewer():
    counts = Counter(listed().values())
    present = counts["same"] + counts["differs"]
    assert present >= PRESENT
    for number in (counts["same"], counts["differs"], counts.total(), f"{present / counts.total():.1%}"):
        assert re.search(rf"\b{number}", PAGE.split("\n## ")[0])
