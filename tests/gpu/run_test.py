"""`tests/run.sh --gpu` on a machine without a GPU, and how its results read."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from gpu import run

ROOT = Path(__file__).resolve().parents[2]


def test_without_a_gpu_it_says_so_and_exits_with_2(tmp_path):
    environment = {**os.environ, "PATH": f"{tmp_path}:/usr/bin:/bin"}
    (tmp_path / "nvidia-smi").write_text("#!/bin/sh\nexit 9\n")
    (tmp_path / "nvidia-smi").chmod(0o755)
    command = ["bash", str(ROOT / "tests" / "run.sh"), "--gpu"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "no GPU" in done.stderr


def test_results_say_what_passed_failed_and_was_not_run(tmp_path, monkeypatch):
    (tmp_path / "docs").mkdir()
    monkeypatch.setattr(run, "ROOT", tmp_path)
    results = run.Results()
    line = 'print(\'[0] {"figure": "pack", "us": 3}\')'
    results.run("good", [sys.executable, "-c", line], {})
    results.run("bad", [sys.executable, "-c", "raise SystemExit(3)"], {})
    results.run("wanted", [sys.executable, "-c", "print('KILLED-OK'); exit(1)"], {}, "KILLED-OK")
    results.skip("other", "it is not installed")
    results.write(["- GPU: one"])
    text = (tmp_path / "docs" / "gpu-results.md").read_text()
    assert results.failed
    for part in ("good: passed", "bad: FAILED", "wanted: passed", "other: NOT RUN, it is not"):
        assert part in text
    assert '{"figure": "pack", "us": 3}' in text


def test_one_gpu_is_shared_by_two_ranks():
    assert run.ranks_for(1) == (2, {"NCCL_MULTI_RANK_GPU_ENABLE": "1"})
    assert run.ranks_for(4) == (4, {})
