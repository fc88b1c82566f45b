"""The files of the page: nothing is loaded from elsewhere, no markup is made of texts, what is imported exists."""

import re

import pytest

from aioflow.dashboard.app import STATIC

OWN = sorted(
    path for path in STATIC.rglob("*") if path.suffix in (".js", ".html", ".css") and "vendor" not in path.parts
)


@pytest.mark.whole
@pytest.mark.parametrize("path", OWN, ids=lambda path: str(path.relative_to(STATIC)))
def test_a_file_needs_only_files_of_the_page(path):
    text = path.read_text()
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function", text)
    addresses = set(re.findall(r"https?://[^\s\"')]+", text)) - {"http://www.w3.org/2000/svg"}
    assert addresses == set()
    assert not re.search(r"<[^>]+\s(?:style|on\w+)=", text)  # which the Content-Security-Policy forbids
    for name in re.findall(r"from \"(\.[^\"]+)\"", text):
        assert (path.parent / name).is_file(), name


def test_the_libraries_have_their_licences():
    vendor = STATIC / "vendor"
    for name in ("uplot", "dagre"):
        assert (vendor / f"{name}.js").is_file()
        assert "Permission is hereby granted" in (vendor / f"{name}-LICENSE.txt").read_text()
