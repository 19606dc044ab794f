"""A few elastic jobs under faults: no hang, no wrong sum, no sample lost or counted twice."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

DRIVER = Path(__file__).resolve().parents[2] / "chaos" / "elastic"


@pytest.mark.parametrize(
    "kind", ["kill", "recovery", "joiner", "leave", "flap", "freeze", "launcher"]
)
def test_samples_are_counted_exactly_whatever_happens_to_workers(kind):
    done = subprocess.run(
        [sys.executable, "-B", str(DRIVER), "--only", kind, "--seed", "1"],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
