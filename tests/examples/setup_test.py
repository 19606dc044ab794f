"""examples/setup.sh: which Python .venv is made of."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
MAKE = """
source "$1"/examples/setup.sh
venv=$2
python=$(find_python)
make_venv
"""


def make_venv(folder, python):
    """What the set-up says when it makes .venv with PYTHON set so."""
    environment = {**os.environ, "PYTHON": str(python)}
    return subprocess.run(
        ["bash", "-ec", MAKE, "bash", ROOT, folder], env=environment, capture_output=True,
        text=True, check=True,
    ).stdout  # fmt: skip


def test_an_environment_of_another_python_is_made_anew(tmp_path):
    folder = tmp_path / "environment"
    venv.create(folder, with_pip=False)
    (folder / "kept").touch()
    other = tmp_path / "other"  # stands for an interpreter that is installed elsewhere
    other.write_text(f"""#!/bin/sh
case "$*" in *base_prefix*) echo 3.9 /other ;; *) exec {sys.executable} "$@" ;; esac
""")
    other.chmod(0o755)
    pip = folder / "lib" / f"python3.{sys.version_info.minor}" / "site-packages" / "pip"
    pip.mkdir(parents=True)
    (pip / "__init__.py").touch()
    assert make_venv(folder, sys.executable) == ""
    assert (folder / "kept").exists()
    assert f"PYTHON={other} is another than that of .venv" in make_venv(folder, other)
    assert not (folder / "kept").exists()
