import email
import re
import subprocess
import sys
import sysconfig
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PROGRAM = """
import asyncio
import sys

import aioflow as af

with af.Graph().as_default() as graph:
    x = af.placeholder(af.float32, [None])
    total = af.reduce_sum(x * x)


async def main():
    async with af.Session(graph=graph) as session:
        print(await session.run(total, {x: [3.0, 4.0]}))


asyncio.run(main())
print(af.__file__.startswith(sys.prefix))
"""


def run(*command, **options):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    pytest.importorskip("hatchling", reason="the package hatchling is not installed")
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder, cwd=ROOT)
    (built,) = folder.iterdir()
    return built


def texts():
    """Every text in which a user may read the name of an extra."""
    for name in ("aioflow", "docs", "examples", "engines"):
        yield from (path for path in (ROOT / name).rglob("*") if path.suffix in (".py", ".pyi", ".md"))
    yield from ROOT.glob("*.md")


def test_a_wheel_holds_every_file_of_the_package(wheel):
    package = ROOT / "aioflow"
    there = {str(path.relative_to(ROOT)) for path in package.rglob("*") if path.is_file() and path.suffix != ".pyc"}
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert packed == there
    assert {"aioflow/py.typed", "aioflow/net/wire/PROTOCOL.md"} <= packed


def test_a_wheel_says_its_name_its_extras_and_its_command(wheel):
    assert wheel.name.startswith("aioflow_engine-")
    with zipfile.ZipFile(wheel) as archive:
        (metadata, points) = (
            archive.read(next(name for name in archive.namelist() if name.endswith(f".dist-info/{file}"))).decode()
            for file in ("METADATA", "entry_points.txt")
        )
    message = email.message_from_string(metadata)
    assert message["Name"] == "aioflow-engine"
    assert set(message.get_all("Provides-Extra")) == set(PROJECT["optional-dependencies"])
    assert "aioflow = aioflow.cli:main" in points


@pytest.mark.long
@pytest.mark.slow
def test_a_wheel_runs_in_a_fresh_environment(wheel, tmp_path):
    """The environment sees the packages that are installed here, so nothing is downloaded."""
    venv.create(tmp_path / "fresh")
    python = tmp_path / "fresh" / "bin" / "python"
    site = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    pip = (sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check")
    run(*pip, "install", "--quiet", "--no-deps", "--no-index", "--ignore-installed", wheel)
    assert run(python, "-I", "-c", PROGRAM, cwd=tmp_path).split() == ["25.0", "True"]
    assert "matmul" in run(tmp_path / "fresh" / "bin" / "aioflow", "ops", cwd=tmp_path, env={})


def test_every_extra_that_a_text_names_exists():
    for path in texts():
        text = path.read_text()
        named = re.findall(r"aioflow-engine\[(\w+)\]", text)
        assert set(named) <= set(PROJECT["optional-dependencies"]), path
        assert not re.search(rf"\baioflow\[(?:{'|'.join(PROJECT['optional-dependencies'])})\]", text), path
