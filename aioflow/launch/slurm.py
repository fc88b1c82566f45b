"""The variables of SLURM's `srun`, and its lists of hosts, such as `node[01-03,7]`."""

import itertools
import math
import re
from collections.abc import Iterator, Mapping
from typing import Final

from aioflow.launch.environment import DIGITS, Environment, addresses_by_host
from aioflow.net.cluster import Member

VARIABLE: Final = "SLURM_JOB_ID"
_FIRST_PORT: Final = 10000
_APART: Final = 16
_JOBS: Final = 1400
_RANGE: Final = re.compile(r"(\d+)(?:-(\d+))?", re.ASCII)
_COUNT: Final = re.compile(r"(\d+)(?:\(x(\d+)\))?", re.ASCII)
_DIGITS: Final = 5
_MOST: Final = 10**_DIGITS


def slurm(variables: Mapping[str, str]) -> Member:
    """Return the task of process SLURM_PROCID in its step.

    Processes on one host have the ports from AIOFLOW_PORT on, by default from a port that depends on the job's number,
    so that jobs on one host have different ports. InvalidArgumentError names the missing or invalid variable, and
    explains if `srun` did not start the process.
    """
    environment = Environment(variables, "SLURM")
    if not environment.has("SLURM_STEP_ID"):
        text = "it is not set, so srun did not start this process; in the batch script write: srun COMMAND"
        raise environment.error("SLURM_STEP_ID", text)
    hosts = _hosts(environment)
    counts = _counts(environment)
    if len(hosts) != len(counts):
        text = f"it describes {len(counts)} hosts, but the list of hosts has {len(hosts)}"
        raise environment.error("SLURM_STEP_TASKS_PER_NODE", text)
    rank = environment.number("SLURM_PROCID", below=sum(counts))
    node, local = environment.number("SLURM_NODEID", below=len(hosts)), environment.number("SLURM_LOCALID")
    if sum(counts[:node]) + local != rank:
        text = f"{rank} is not number {local} of host {node}, counted host by host: use srun --distribution=block"
        raise environment.error("SLURM_PROCID", text)
    job = environment.number("SLURM_JOB_ID")
    port = environment.ports(max(counts), _FIRST_PORT + _APART * (job % _JOBS))
    return environment.member(addresses_by_host(hosts, counts, port), rank)


def _hosts(environment: Environment) -> list[str]:
    names = ("SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST")
    try:
        return expand(environment.text(*names))
    except ValueError as error:
        raise environment.error(next(filter(environment.has, names)), str(error)) from None


def _counts(environment: Environment) -> list[int]:
    """Return the number of processes on each host: `2(x3),1` is 2, 2, 2, 1."""
    name = "SLURM_STEP_TASKS_PER_NODE"
    counts: list[int] = []
    for part in environment.text(name).split(","):
        match = _COUNT.fullmatch(part.strip())
        if match is None or not max(len(match[1]), len(match[2] or "")) <= _DIGITS:
            raise environment.error(name, f"{part[:50]!r} is not a count such as 2 or 2(x3)")
        counts += [int(match[1])] * int(match[2] or 1)
    return counts


def expand(text: str) -> list[str]:
    """Return the hosts of a list: `a,b[1-2]-x` is a, b1-x, b2-x. Keeps leading zeros. ValueError if it is no list."""
    found: list[str] = []
    for part in _split(text):
        pieces = list(_pieces(part))
        if len(found) + math.prod(map(len, pieces)) > _MOST:
            raise ValueError(f"there are more than {_MOST} hosts")
        found += map("".join, itertools.product(*pieces))
    return found


def _split(text: str) -> list[str]:
    """Split at the commas outside of brackets."""
    parts = re.findall(r"(?:[^,\[\]]|\[[^\[\]]*\])+", text)
    if not parts or ",".join(parts) != text:
        raise ValueError(f"{text[:200]!r} is not a list of hosts such as node[01-03,7]")
    return parts


def _pieces(part: str) -> Iterator[list[str]]:
    """Yield the choices for each part of a name: one text, or several numbers."""
    for plain, choice in re.findall(r"([^\[\]]+)|\[([^\[\]]*)\]", part):
        yield [plain] if plain else _expand_choice(choice)


def _expand_choice(choice: str) -> list[str]:
    found: list[str] = []
    for each in choice.split(","):
        found += _range(each)
        if len(found) > _MOST:
            raise ValueError(f"there are more than {_MOST} hosts")
    return found


def _range(text: str) -> list[str]:
    match = _RANGE.fullmatch(text.strip())
    if match is None or max(len(match[1]), len(match[2] or "")) > DIGITS:
        raise ValueError(f"{text[:50]!r} is not a range of numbers")
    first, last = match[1], match[2] or match[1]
    if not 0 <= int(last) - int(first) < _MOST:
        raise ValueError(f"{text[:50]!r} is not a range of fewer than {_MOST} numbers")
    return [str(number).zfill(len(first)) for number in range(int(first), int(last) + 1)]
