"""The pages of the site, as Markdown: those of `docs/`, some files of the repository, the reference."""

import functools
import re
from pathlib import Path
from typing import Final

from docs.site import reference

ROOT: Final = Path(__file__).parents[2]
OTHERS: Final = {
    "docs/README.md": "index.md",
    "PROMISES.md": "promises.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changes.md",
    "aioflow/net/wire/PROTOCOL.md": "protocol.md",
}
"""The files whose place on the site is another one than in the repository, below `docs/`."""

_LINK: Final = re.compile(r"(?<!!)\[(?P<text>[^\]]*)\]\((?P<path>[^)#:]+)(?P<heading>#[^)]*)?\)")
_PICTURE: Final = re.compile(r"^!\[(?P<text>[^\]]*)\]\((?P<path>[^)]+\.svg)\)$", re.MULTILINE)
_FURTHER: Final = re.compile("# FURTHER PAGES.*")
_BLOCK: Final = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def pages() -> dict[str, str]:
    """The text of each page, by its file below the root of the site."""
    written = {_places()[path]: _page(path) for path in _places()}
    return written | {f"reference/{file}": text for file, text in reference.pages().items()}


def configuration() -> str:
    """The configuration of zensical, with all pages in the navigation."""
    text = Path(__file__).with_name("zensical.toml").read_text()
    further = [file for file in reference.pages() if f'"reference/{file}"' not in text]
    entries = ", ".join(f'{{ "{file.removesuffix(".md")}" = "reference/{file}" }}' for file in further)
    return _FURTHER.sub(f'{{ "Further modules" = [{entries}] }},' if further else "", text)


@functools.cache
def _places() -> dict[Path, str]:
    """The place on the site of each file of the repository that is a page."""
    others = {ROOT / path: place for path, place in OTHERS.items()}
    docs = ROOT / "docs"
    return {path: path.relative_to(docs).as_posix() for path in sorted(docs.rglob("*.md"))} | others


def _page(path: Path) -> str:
    """The text of a page, whose links lead to places on the site. Pictures are drawn in the page, in its colours."""
    text, parts, end = path.read_text(), [], 0
    for block in _BLOCK.finditer(text):
        parts += [_linked(text[end : block.start()], path), block[0]]
        end = block.end()
    return "".join([*parts, _linked(text[end:], path)])


def _linked(prose: str, page: Path) -> str:
    def link(match: re.Match[str]) -> str:
        target = (page.parent / match["path"]).resolve()
        if target not in _places():
            raise ValueError(f"{page.relative_to(ROOT)} links to {match['path']}, which is no page of the site")
        up = "../" * _places()[page].count("/")
        return f"[{match['text']}]({up}{_places()[target]}{match['heading'] or ''})"

    def picture(match: re.Match[str]) -> str:
        drawing = re.sub(r"\n\s*", "\n", (page.parent / match["path"]).read_text()).strip()
        return f'<figure markdown="0">\n{drawing}\n</figure>'

    return _PICTURE.sub(picture, _LINK.sub(link, prose))
