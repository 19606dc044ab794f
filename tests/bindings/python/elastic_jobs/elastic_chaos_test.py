"""A few elastic jobs under faults: no hang, no wrong sum, no sample lost or counted twice."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from support.volume import ALL

DRIVER = Path(__file__).resolve().parents[3] / "chaos" / "elastic"


KINDS = ["kill", "recovery", "joiner", "leave", "flap", "freeze", "coordinator", "launcher"]


def play(*arguments, limit_s=240):
    done = subprocess.run(
        [sys.executable, "-B", str(DRIVER), "--seed", "1", *arguments],
        capture_output=True,
        text=True,
        timeout=limit_s,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("kind", KINDS)
def test_samples_are_counted_exactly_whatever_happens_to_workers(kind):
    play("--only", kind)


def test_training_with_pytorch_survives_a_kill(monkeypatch, tmp_path):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "cache"))  # hidden in the sandbox
    play("--framework", "torch", "--only", "kill", "--most-ranks", "2")


@ALL
@pytest.mark.parametrize("framework", ["torch", "keras"])
def test_training_survives_whatever_happens_to_workers(framework):
    if framework == "keras":
        pytest.importorskip("tensorflow", reason="TensorFlow is not installed here")
    play("--framework", framework, "--count", "6", limit_s=3600)
