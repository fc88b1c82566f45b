"""Builds the site in build/docs/site. Warnings of zensical, such as links that lead nowhere, are errors.

python -m docs.site.build
"""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from docs.site.pages import ROOT, configuration, pages

BUILD: Final = ROOT / "build/docs"
"""Has the configuration, the pages that zensical reads, and the site."""


def main() -> int:
    """Write the pages, run zensical over them, and return its status."""
    shutil.rmtree(BUILD, ignore_errors=True)
    for file, text in pages().items():
        page = BUILD / "pages" / file
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(text)
    shutil.copy(Path(__file__).with_name("style.css"), BUILD / "pages")
    (BUILD / "zensical.toml").write_text(configuration())
    zensical = Path(sys.executable).with_name("zensical")
    return subprocess.run([zensical, "build", "--strict"], cwd=BUILD, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
