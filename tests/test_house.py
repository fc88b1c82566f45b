"""What holds for the whole of `aioflow/`: the size of its files, what they may call and import, what importing does."""

import ast
import json
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

import aioflow.testing
from tests.mutants import ROOT, mutants

HOUSE = Path(aioflow.testing.__file__).parents[1]
FILES = sorted(HOUSE.rglob("*.py"))

# Where each third-party package may be imported: in a folder, in a file, or, as NumPy, everywhere.
MAY_IMPORT = {
    "aiohttp": ("dashboard", "net", "serving"),
    "grpc": ("serving",),
    "cryptography": ("net/transport/authority.py",),
    "IPython": ("notebook/live.py",),
    "PIL": ("kernels/image/image_codecs.py",),
    "cupy": ("devices",),
    "distributed": ("launch",),
    "fsspec": ("checkpoint/storage.py", "files/filesystem.py"),
    "lmdb": ("files/lmdb_records.py",),
    "google": ("onnx/protobuf.py",),
    "google_crc32c": ("files/crc32c.py",),
    "ml_dtypes": (".",),
    "msgpack": ("net", "serving", "graph/graphdef.py", "tensors/plain_data.py"),
    "numpy": (".",),
    "onnx": ("onnx/protobuf.py",),
    "opentelemetry": ("serving/spans.py",),
    "prometheus_client": ("serving/metrics.py",),
    "ray": ("launch",),
    "tensorboard": ("summary",),
    "threadpoolctl": ("devices/blas.py",),
    "re2": ("kernels/text/regex.py",),
    "rich": ("cli/tables.py",),
    "uvloop": ("cli", "launch"),
}
LAZY = MAY_IMPORT.keys() - {"ml_dtypes", "numpy"}
DESERIALISERS = {"cloudpickle", "dill", "marshal", "pickle", "shelve"}
COMPILERS = {"compile", "eval", "exec"}


def place(file):
    return file.relative_to(HOUSE)


@cache
def nodes(file):
    """The imports and calls of a file, at its top or inside functions."""
    kinds = (ast.Import, ast.ImportFrom, ast.Call)
    return [node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, kinds)]


@cache
def calls(file):
    """The calls of a file, and the text of the function of each."""
    return [(node, ast.unparse(node.func)) for node in nodes(file) if isinstance(node, ast.Call)]


def called(file):
    return {function for _, function in calls(file)}


@cache
def imports(file):
    """The full name of each module that the file imports, at its top or later."""
    found = []
    for node in nodes(file):
        match node:
            case ast.Import(names=names):
                found += [name.name for name in names]
            case ast.ImportFrom(module=module, level=0):
                found.append(module)
    for call, function in calls(file):
        match call.args:
            case [ast.Constant(value=str(module)), *_] if function == "importlib.import_module":
                found.append(module)
    return found


def everywhere(offences):
    """Each offence of each file, as `file: offence`: an assertion shows them all."""
    return [f"{place(file)}: {offence}" for file in FILES for offence in offences(file)]


def test_no_file_is_longer_than_500_lines():
    assert everywhere(lambda file: file.read_text().splitlines()[500:]) == []


def test_third_party_packages_are_imported_only_where_the_design_allows():
    def offences(file):
        for module in imports(file):
            package = module.partition(".")[0]
            allowed = (HOUSE / part for part in MAY_IMPORT.get(package, ()))
            if package not in sys.stdlib_module_names | {"aioflow"} and not any(map(file.is_relative_to, allowed)):
                yield module

    assert everywhere(offences) == []


def test_modules_import_each_other_by_module():
    def offences(file):
        for node in nodes(file):
            match node:
                case ast.Import(names=names):
                    yield from (name.name for name in names if name.name == "aioflow")
                case ast.ImportFrom(module="aioflow", names=names):
                    modules = {path.stem for path in HOUSE.iterdir()}
                    yield from (name.name for name in names if name.name not in modules)

    assert everywhere(offences) == []


def test_nothing_deserialises_code():
    assert everywhere(lambda file: DESERIALISERS.intersection(imports(file))) == []


def test_only_the_code_generators_compile():
    def offences(file):
        generates = place(file) in (Path("program/codegen.py"), Path("net/wire/record_code.py"))
        return () if generates else COMPILERS.intersection(called(file))

    assert everywhere(offences) == []


def test_no_module_is_imported_by_a_name_that_is_computed():
    def offences(file):
        if place(file) in (Path("launch/functions.py"), Path("lazy.py"), Path("name_hints.py")):
            return  # --py-funcs, whose user may run any code; the tables of public names
        for call, function in calls(file):
            if function.endswith(("__import__", "import_module")) and not isinstance(call.args[0], ast.Constant):
                yield ast.unparse(call)

    assert everywhere(offences) == []


def test_nothing_waits_with_wait_for():
    assert everywhere(lambda file: {"asyncio.wait_for", "wait_for"}.intersection(called(file))) == []


def test_arrays_are_loaded_without_objects():
    def offences(file):
        for call, function in calls(file):
            if function == "np.load" and "allow_pickle=False" not in map(ast.unparse, call.keywords):
                yield ast.unparse(call)

    assert everywhere(offences) == []


IMPORTING = """
import asyncio, json, signal, sys, threading

loops = []
asyncio.set_event_loop = asyncio.events.set_event_loop = loops.append
handlers = {number: signal.getsignal(number) for number in signal.valid_signals()}

import aioflow
import aioflow.testing

print(json.dumps({
    "threads": [thread.name for thread in threading.enumerate()],
    "handlers": [number for number in handlers if signal.getsignal(number) != handlers[number]],
    "loops": len(loops),
    "modules": [*sys.modules],
}))
"""


@pytest.fixture(scope="module")
def fresh():
    """What a fresh process holds after importing aioflow and its testing tools."""
    run = subprocess.run([sys.executable, "-c", IMPORTING], capture_output=True, check=True, text=True)
    return json.loads(run.stdout)


def test_importing_starts_no_thread(fresh):
    assert fresh["threads"] == ["MainThread"]


def test_importing_installs_no_signal_handler(fresh):
    assert fresh["handlers"] == []


def test_importing_sets_no_event_loop(fresh):
    assert fresh["loops"] == 0


def test_importing_leaves_alone_what_a_local_session_does_not_need(fresh):
    assert LAZY.intersection(fresh["modules"]) == set()


def test_importing_the_testing_tools_does_not_need_pytest(fresh):
    assert "pytest" not in fresh["modules"]


@pytest.mark.whole
@pytest.mark.parametrize("mutant", mutants(), ids=lambda mutant: mutant.name)
def test_every_planted_fault_has_its_place(mutant):
    compile(mutant.text(ROOT), mutant.file, "exec")
