"""The scripts of docs/getting-started.md run, and print what the page shows."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = (Path(__file__).resolve().parent.parent / "docs" / "getting-started.md").read_text()
SCRIPT = re.compile(r'^```python title="(\w+\.py)".*?\n(.*?)^```', re.MULTILINE | re.DOTALL)
SHOWN = re.compile(r"^```text\n(.*?)^```", re.MULTILINE | re.DOTALL)


def output_of(folder, script):
    """The output of two ranks of a script of the page, in the order of ranks."""
    path = folder / script
    path.write_text(dict(SCRIPT.findall(PAGE))[script])
    command = [sys.executable, "-m", "ronde", "run", "-np", "2", "--", sys.executable, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return sorted(done.stdout.splitlines())


def test_the_first_script_prints_what_the_page_shows(tmp_path):
    assert output_of(tmp_path, "hello.py") == SHOWN.findall(PAGE)[0].splitlines()


def test_the_training_script_runs(tmp_path):
    pytest.importorskip("torch")
    assert output_of(tmp_path, "train.py") == []
