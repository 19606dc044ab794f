"""The installed binary with another torch: Debian's python3-torch, or that of RONDE_TEST_PYTHON.

RONDE_TEST_PYTHON names an interpreter of this Python version that has a torch and NumPy of its own.
"""

import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from jobs import HERE, CaseResults

OTHER = os.environ.get("RONDE_TEST_PYTHON", "/usr/bin/python3")
ROOMS = ("pytorch", "torch_optimizer")
FILES = [file for room in ROOMS for file in sorted((HERE / room).glob("*_cases.py"))]
ASK = "import sys, torch; print(sys.implementation.cache_tag, torch.__version__)"


def reason_to_skip():
    """Why OTHER is of no use here, or None."""
    try:
        asked = subprocess.run(
            [OTHER, "-c", ASK], capture_output=True, text=True, timeout=480, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return f"{OTHER} has no torch"
    python, version = asked.stdout.split()
    if python != sys.implementation.cache_tag:
        return f"{OTHER} is {python}, not {sys.implementation.cache_tag}"
    return f"{OTHER} has the same torch" if version == torch.__version__ else None


def link_packages(folder):
    """Links to what the cases need, and no other package of this environment."""
    for name in ("ronde", "pytest", "_pytest", "pluggy", "iniconfig", "packaging", "pygments"):
        package = Path(importlib.import_module(name).__file__).parent
        (folder / name).symlink_to(package)
    (folder / "py.py").symlink_to(importlib.import_module("py").__file__)


def test_all_cases_pass_with_another_torch(tmp_path):
    reason = reason_to_skip()
    if reason:
        pytest.skip(reason)
    packages, results = tmp_path / "packages", tmp_path / "results"
    packages.mkdir()
    results.mkdir()
    link_packages(packages)
    job = CaseResults(FILES, 2, results, OTHER, ["--env", f"PYTHONPATH={packages}"])
    assert job.ranks[0], job.output
    for name in job.ranks[0]:
        job.check(name)
    assert job.status == 0, job.output
