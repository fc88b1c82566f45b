"""Writes docs/tensorflow-names.md anew, and the table of the command `aioflow port`.

python -m oracle.names
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from aioflow.porting.tensorflow1.names import LEFT_OUT
from oracle.names.comparison import State, state_of
from oracle.names.listing import EXCLUDED, public_names

_ROOT: Final = Path(__file__).parents[2]
PAGE: Final = _ROOT / "docs" / "tensorflow-names.md"
TABLE: Final = _ROOT / "aioflow" / "porting" / "tensorflow1" / "tensorflow_names.tsv"
HEAD: Final = """# TensorFlow's names

The public names of TensorFlow's v1 API (`tf.compat.v1` of 2.21) and their state in aioflow: **{share:.1%}** of {all}
are there, {same} with the same parameters and {differs} with others. `python -m oracle.names` makes this page.
"""


def page(states: Mapping[str, State]) -> str:
    """Return the text of the page."""
    counts = Counter(state.state for state in states.values())
    present = counts["same"] + counts["differs"]
    head = HEAD.format(share=present / len(states), all=len(states), same=counts["same"], differs=counts["differs"])
    return "\n".join([head, *_sections(states), *_excluded()]) + "\n"


def _sections(states: Mapping[str, State]) -> Iterator[str]:
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


def table(states: Mapping[str, State]) -> str:
    """Return the same rows for programs: path, state and text, with tabs between them, and the modules left out."""
    rows = [(path, state, text) for path, (state, text) in states.items()]
    rows += [(module, LEFT_OUT, why) for module, why in EXCLUDED.items()]
    return "".join("\t".join(row) + "\n" for row in rows)


if __name__ == "__main__":
    found = {path: state_of(path, theirs) for path, theirs in public_names().items()}
    PAGE.write_text(page(found))
    TABLE.write_text(table(found))
