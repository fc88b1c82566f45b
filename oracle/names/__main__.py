"""Writes docs/tensorflow-names.md anew.

python -m oracle.names
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from oracle.names.comparison import State, state_of
from oracle.names.listing import EXCLUDED, public_names

PAGE: Final = Path(__file__).parents[2] / "docs" / "tensorflow-names.md"
HEAD: Final = """# TensorFlow's names

The public names of TensorFlow's v1 API (`tf.compat.v1` of 2.21) and their state in aioflow: **{share:.1%}** of {all}
are there, {same} with the same parameters and {differs} with others. `python -m oracle.names` makes this page.
"""


def page() -> str:
    """Return the text of the page."""
    states = {path: state_of(path, theirs) for path, theirs in public_names().items()}
    counts = Counter(state.state for state in states.values())
    present = counts["same"] + counts["differs"]
    head = HEAD.format(share=present / len(states), all=len(states), same=counts["same"], differs=counts["differs"])
    return "\n".join([head, *_sections(states), *_excluded()]) + "\n"


def _sections(states: dict[str, State]) -> Iterator[str]:
    for module in sorted({path.rpartition(".")[0] for path in states}):
        yield f"## {'.'.join(['tf', *filter(None, [module])])}\n"
        yield "| name | state | |\n|---|---|---|"
        for path, (state, text) in states.items():
            if path.rpartition(".")[0] == module:
                yield f"| `{path.rpartition('.')[2]}` | {state} | {text} |"
        yield ""


def _excluded() -> Iterator[str]:
    yield "## Left out\n\n| module | why |\n|---|---|"
    yield from (f"| `tf.{module}` | {why} |" for module, why in EXCLUDED.items())


if __name__ == "__main__":
    PAGE.write_text(page())
