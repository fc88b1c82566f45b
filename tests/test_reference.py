"""The reference: each public object has a page and, more and more of them, an example; the site lists all pages."""

import re
import tomllib
from collections import Counter
from functools import cache

import pytest

import aioflow as af
from aioflow.autodiff import rules
from aioflow.session import default_config
from docs.site import reference
from docs.site.pages import configuration, pages
from tests.support.docstring_examples import examples, failures

WITHOUT = 3
"""The number of public objects without an example in their docstring: what needs Dask, Ray or processes of its own."""


@cache
def site():
    """The text of each page of the site, by its file."""
    return pages()


def described(file):
    """The names that a page of the reference describes."""
    return re.findall(r"^ +heading: (.*)$", site().get(f"reference/{file}.md", ""), re.MULTILINE)


FILES = (*reference.PARTS, *reference.MODULES.values())


@pytest.mark.whole
@pytest.mark.real
@pytest.mark.parametrize("file", FILES)
async def test_the_examples_of_a_page_print_what_they_show(file, tmp_path, monkeypatch):
    monkeypatch.setattr(default_config, "_default", af.Config())  # which examples of af.config change
    monkeypatch.setattr(rules, "_registered", {**rules._registered})  # to which examples add gradients
    objects = {each.shown: each.value for each in reference.objects().values()}
    found = {}
    for name in described(file):
        (folder := tmp_path / name).mkdir()
        monkeypatch.chdir(folder)
        found[name] = await failures(objects[name])
    assert {name: wrong for name, wrong in found.items() if wrong} == {}


def test_fewer_and_fewer_objects_have_no_example():
    without = [each.shown for each in reference.objects().values() if not examples(each.value)]
    assert len(without) == WITHOUT, f"set WITHOUT to {len(without)} if it has fallen; without are {without}"


def test_every_public_object_is_described_once():
    names = Counter(name for file in FILES for name in described(file))
    assert set(names.values()) == {1}
    assert names.keys() == {each.shown for each in reference.objects().values()}
    assert {"af.matmul", "af.Session", "af.layers.Dense", "af.train.Saver"} <= names.keys()


def test_a_name_of_several_modules_is_described_once_and_linked_from_the_others():
    assert "- `af.math.exp` is [`af.exp`][aioflow.exp]\n" in site()["reference/af.math.md"]
    assert af.math.exp is af.exp


def members(name, file):
    """The members that a page shows of a class."""
    found = re.search(rf"heading: {re.escape(name)}\n.*\n +members: (.*)\n", site()[f"reference/{file}.md"])
    return found[1].strip("[]").split(", ")


def test_a_class_shows_what_it_adds_to_its_public_bases():
    assert {"run", "explain", "memory", "replan"} <= {*members("af.Session", "sessions")}
    assert "call" in members("af.layers.Layer", "af.layers")
    assert members("af.layers.Dense", "af.layers") == ["false"]


def test_the_navigation_has_every_page_once():
    project = tomllib.loads(configuration())["project"]
    assert sorted(files(project["nav"])) == sorted(site())


def files(entry):
    """The files in a part of the navigation."""
    if isinstance(entry, str):
        yield entry
    else:
        for part in entry.values() if isinstance(entry, dict) else entry:
            yield from files(part)


def test_links_and_pictures_lead_to_places_on_the_site():
    assert "](../protocol.md)" in site()["explanation/wire.md"]
    assert "](../contributing.md#how-to-add-an-op)" in site()["how-to/custom-ops.md"]
    assert site()["explanation/run.md"].count("<svg") == 2
    for name, text in site().items():
        assert not re.search(r"\]\([^)]*\.(svg|py|toml)\)", text), name
