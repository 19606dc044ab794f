"""Shared by the tests of packages."""

from __future__ import annotations

import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def run(*command, **options):
    """Runs a command; its output is what a failure shows."""
    result = subprocess.run(
        [str(part) for part in command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=2400,
        check=False,
        **options,
    )
    assert result.returncode == 0, f"{command}:\n{result.stdout}"
    return result.stdout
