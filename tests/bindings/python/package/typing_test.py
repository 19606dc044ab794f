"""Static types of a user's file, and what help() and errors show of the same functions."""

import importlib
import inspect
import pickle
import re
import subprocess
import sys
from pathlib import Path

import pytest
import ronde
import ronde.torch as hvd
import ronde.torch.distributed as backend
from public_names import PACKAGE, names_of

USER = Path(__file__).with_name("typed_user.py")
MODULES = {
    "ronde": "__init__.py",
    "elastic": "elastic.py",
    "hvd": "torch/__init__.py",
    "hvtf": "tensorflow/__init__.py",
    "hvk": "keras/__init__.py",
    "backend": "torch/distributed/__init__.py",
}
WRITTEN = ("ronde", "ronde.torch", "ronde.torch.mpi_ops", "ronde._horovod")


def check(folder, *command):
    """Runs a type checker on the user's file, away from this repository's settings."""
    result = subprocess.run(
        [sys.executable, "-m", *command, USER],
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
        cwd=folder,
    )
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize(("alias", "file"), MODULES.items())
def test_the_user_names_everything_public(alias, file):
    used = set(re.findall(rf"\b{alias}\.(\w+)", USER.read_text()))
    assert set(names_of(PACKAGE / file)) <= used


def test_mypy_strict_accepts_a_users_file(tmp_path):
    check(tmp_path, "mypy", "--strict", "--config-file=", "--cache-dir=cache")


def test_pyright_accepts_a_users_file(tmp_path):
    pytest.importorskip("pyright")
    check(tmp_path, "pyright", "--pythonpath", sys.executable)


@pytest.mark.parametrize("name", WRITTEN)
def test_all_lists_what_the_parts_of_a_module_offer(name):
    module = importlib.import_module(name)
    parts = re.findall(r"^from (\S+) import \*", inspect.getsource(module), re.MULTILINE)
    offered = {one for part in parts for one in importlib.import_module(part).__all__}
    assert parts
    assert offered <= set(module.__all__)


def collectives():
    """The functions of ronde and ronde.torch that communicate."""
    for module in (ronde, hvd):
        for name in module.__all__:
            function = getattr(module, name)
            if (
                inspect.isfunction(function)
                and "process_set" in inspect.signature(function).parameters
            ):
                yield f"{module.__name__}.{name}", function


@pytest.mark.parametrize(("name", "function"), [*collectives()])
def test_help_explains_every_argument(name, function):
    for argument in inspect.signature(function).parameters:
        assert re.search(rf"\b{argument}: |`{argument}`", function.__doc__), f"{name}: {argument}"


def test_signatures_are_those_of_the_source():
    shown = str(inspect.signature(hvd.allreduce))
    assert "process_set: ProcessSet = global_process_set" in shown
    assert shown.endswith("-> Tensor")
    assert "compression: Compressor = Compression.none, op: int | None = None" in shown
    assert str(inspect.signature(hvd.allreduce_async)).endswith("-> Handle[Tensor]")
    assert "compression" not in inspect.signature(hvd.allreduce_async).parameters
    assert str(inspect.signature(hvd.grouped_allgather)).endswith("-> list[Tensor]")
    assert "op: int = Average" in str(inspect.signature(ronde.reduce))
    assert str(inspect.signature(hvd.alltoall)).endswith("-> Tensor | tuple[Tensor, Tensor]")


def test_operators_print_and_pickle_by_name():
    assert (repr(hvd.Average), str(ronde.BitXor)) == ("Average", "BitXor")
    assert pickle.loads(pickle.dumps(hvd.Sum)) is ronde.ReduceOp.Sum
    assert isinstance(hvd.Min, int)


def test_public_classes_print_and_pickle_by_their_public_names():
    assert repr(ronde.MismatchError) == "<class 'ronde.MismatchError'>"
    assert type(pickle.loads(pickle.dumps(ronde.StalledError("late")))) is ronde.StalledError
    for name in ("Compression", "DeviceArray", "Error", "Handle", "ProcessSet", "ReduceOp"):
        assert getattr(ronde, name).__module__ == "ronde"


def test_process_sets_print_their_ranks():
    assert "ranks=[1, 3]" in repr(hvd.ProcessSet([3, 1]))
    assert repr(hvd.global_process_set) == "global_process_set"


def test_the_backend_offers_what_it_documents():
    assert set(backend.__all__) == {name for name in backend.__all__ if hasattr(backend, name)}
