"""The documents: their programs run, their links lead somewhere, their tables are complete, their names exist."""

import contextlib
import dataclasses
import doctest
import gc
import importlib.util
import io
import re
import tomllib
from pathlib import Path

import pytest

import aioflow as af

ROOT = Path(__file__).parents[1]
PAGES = ("README.md", *sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md")))
OTHERS = ("PROMISES.md", "CONTRIBUTING.md", "CHANGELOG.md", "aioflow/net/wire/PROTOCOL.md", "examples/data/README.md")
TEXTS = {name: (ROOT / name).read_text() for name in (*PAGES, *OTHERS)}
BLOCK = re.compile(r"^```python\n(?P<code>.*?)^```$(?:\n\n^```text\n(?P<output>.*?)^```$)?", re.MULTILINE | re.DOTALL)


@pytest.fixture
def as_a_user(tmp_path, monkeypatch):
    """An empty working directory; processes of clusters import this tree's aioflow; what a page tunes is undone."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    thresholds = gc.get_threshold()
    yield
    gc.set_threshold(*thresholds)


TUTORIAL = tuple(f"docs/tutorial/{page}.md" for page in ("graph", "training", "saving", "serving", "cluster"))
"""Its pages are one program."""

NEEDS = {
    "docs/how-to/dask.md": ("distributed",),
    "docs/how-to/ray.md": ("ray",),
    "docs/onnx.md": ("onnx",),
    "docs/serving-clients.md": ("tritonclient",),
}
"""The packages that a page is about; `make test-serving`, `test-dask` and `test-ray` have them."""


LONGEST = {"docs/clusters.md"}
"""Pages whose programs take long; the tutorial starts clusters, too."""


def program(*pages):
    """The case of a test: pages that are one program. It is skipped without a package that they are about."""
    absent = [package for name in pages for package in NEEDS.get(name, ()) if importlib.util.find_spec(package) is None]
    marks = [pytest.mark.skip(f"the package {absent[0]} is not installed")] if absent else []
    if LONGEST.intersection(pages):
        marks.append(pytest.mark.long)
    if any("af.launch.local(" in TEXTS[name] for name in pages):
        marks.append(pytest.mark.slow)
    return pytest.param(pages, marks=marks, id=pages[0])


SINGLE = [name for name in PAGES if "```python" in TEXTS[name] and name not in TUTORIAL]


@pytest.mark.whole
@pytest.mark.parametrize("pages", [*map(program, SINGLE), program(*TUTORIAL)])
@pytest.mark.usefixtures("as_a_user")
def test_the_programs_of_a_page_give_the_output_that_it_shows(pages):
    """The blocks of a page are one program, and those of the tutorial. In an output `...` stands for any text."""
    names = {"__name__": "__main__"}
    for page in pages:
        for block in BLOCK.finditer(TEXTS[page]):
            line = TEXTS[page].count("\n", 0, block.start()) + 1
            with contextlib.redirect_stdout(io.StringIO()) as printed:
                exec(compile("\n" * line + block["code"], ROOT / page, "exec"), names)
            agrees = doctest.OutputChecker().check_output(block["output"] or "", printed.getvalue(), doctest.ELLIPSIS)
            assert agrees, f"{page}:{line} prints\n{printed.getvalue()}"


def anchors(name):
    """The headings of a document, as GitHub forms links to them."""
    headings = re.findall(r"^#+ (.*)$", TEXTS[name], re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.whole
@pytest.mark.parametrize("name", TEXTS)
def test_every_link_leads_to_a_document_and_a_heading(name):
    prose = re.sub(r"^```.*?^```$", "", TEXTS[name], flags=re.MULTILINE | re.DOTALL)
    for link in re.findall(r"\]\(([^)]+)\)", prose):
        path, _, heading = link.partition("#")
        if re.match(r"https?://", link):
            continue
        target = (ROOT / name).parent / path if path else ROOT / name
        assert target.exists(), f"{name} links to {link}"
        assert not heading or heading in anchors(str(target.resolve().relative_to(ROOT))), f"{name} links to {link}"


def test_the_contents_list_every_page():
    linked = {f"docs/{link}" for link in re.findall(r"\]\(([\w./-]+\.md)", TEXTS["docs/README.md"])}
    assert {*PAGES} - {"README.md", "docs/README.md"} <= linked


def test_every_file_and_test_that_a_document_names_exists():
    for name, text in TEXTS.items():
        for path, test in re.findall(r"`((?:tests|examples|benchmarks|aioflow)/[\w/]*(?:\.\w+)?)(?:::(\w+))?`", text):
            assert (ROOT / path).exists() or "hypot" in path, f"{name} names {path}"
            assert not test or f"def {test}(" in (ROOT / path).read_text(), f"{name} names {test} of {path}"


def test_every_promise_names_a_test():
    rows = re.findall(r"^\| (?!promise |---)(.*) \| (.*) \|$", TEXTS["PROMISES.md"], re.MULTILINE)
    assert len(rows) > 100
    for promise, test in rows:
        assert re.fullmatch(r"`tests/[\w/]+\.py::test_\w+`", test), promise


# Tables


def table(text, heading):
    """The rows of the table under a heading: the cells, without the marks of code."""
    section = re.search(rf"^## {re.escape(heading)}$(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)[1]
    rows = re.findall(r"^\| (.*) \|$", section, re.MULTILINE)
    return [[cell.strip("`") for cell in row.split(" | ")] for row in rows[1:]]


@pytest.mark.parametrize("kind", [af.Config, af.RunOptions])
def test_the_table_of_a_configuration_has_every_field_and_its_default(kind):
    rows = table(TEXTS["docs/configuration.md"], f"Fields of `{kind.__name__}`")
    fields = dataclasses.fields(kind)
    assert [row[0] for row in rows] == [field.name for field in fields]
    plain = {field.name: repr(field.default) for field in fields if field.default is not dataclasses.MISSING}
    assert {name: default for name, default, _ in rows if name in plain} == plain


def test_the_table_of_variables_has_every_variable_that_the_code_names():
    rows = table(TEXTS["docs/configuration.md"], "Variables of the environment")
    folders = ("aioflow", "benchmarks", "engines", "examples", "oracle", "tests")
    files = [path for folder in folders for path in (ROOT / folder).rglob("*.py")] + [ROOT / "Makefile"]
    named = {name for path in files for name in re.findall(r"\bAIOFLOW_[A-Z]+\b", path.read_text())}
    assert {row[0] for row in rows} == named


def test_the_table_of_extras_has_every_extra():
    rows = table(TEXTS["docs/getting-started.md"], "Extras")
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert {name for row in rows for name in re.findall(r"\w+", row[0])} == set(extras)
