"""Fixtures of the tests that run real jobs, and the collection of cases (cases.py)."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import textwrap
from pathlib import Path

import pytest
from cases import CaseFile
from jobs import LIMIT_S, finish, launch


def pytest_collect_file(file_path, parent):
    """Files of cases."""
    if file_path.name.endswith("_cases.py"):
        return CaseFile.from_parent(parent, path=file_path)
    return None


def pytest_configure(config):
    """Gives this run a temporary directory: frameworks leave files in it when they are killed."""
    # What pytest makes itself it tidies up.
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", tempfile.gettempdir())
    folder = tempfile.mkdtemp(prefix="ronde-tests-")
    before = os.environ.get("TMPDIR")

    def forget():
        tempfile.tempdir = None
        if before is None:
            del os.environ["TMPDIR"]
        else:
            os.environ["TMPDIR"] = before
        shutil.rmtree(folder, ignore_errors=True)

    os.environ["TMPDIR"] = folder
    tempfile.tempdir = None  # asked for anew
    config.add_cleanup(forget)


@pytest.fixture
def run_job(tmp_path):
    """run_job(script, np=2, ...) -> (exit status, output) of a job whose ranks run `script`."""

    def run(script, np=2, arguments=(), environment=None, options=(), limit_s=LIMIT_S):
        path = tmp_path / "script.py"
        path.write_text(textwrap.dedent(script))
        command = [sys.executable, str(path), *map(str, arguments)]
        return finish(launch(command, np, environment, options), limit_s)

    return run


@pytest.fixture
def pictures(tmp_path):
    """Where screenshots go: among the reports of tests/run.sh, where that runs the tests."""
    return Path(os.environ.get("RONDE_TEST_RESULTS", tmp_path))
