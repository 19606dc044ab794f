"""`tests/run.sh --gpu` on a machine without a GPU, and how its results read."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from gpu import run, targets

ROOT = Path(__file__).resolve().parents[2]

GOOD = [
    {"figure": "pack of 161 gradients", "pack_share": 0.93, "unpack_share": 0.9},
    {"figure": "fused allreduce", "bytes": 16 << 20, "ronde_ms": 1.01, "nccl_ms": 1.0},
    {"figure": "fused allreduce", "bytes": 256 << 20, "ronde_ms": 9.9, "nccl_ms": 10.0},
    {"figure": "host time of a fused collective", "cpu_us": 12.0},
    {"figure": "top-k", "times_faster": 6.0},
    {"figure": "int8 encode with error feedback", "share": 0.8},
]


def row_of(figures: list[targets.Figure], what: str) -> str:
    """The row of the table that begins so."""
    (row,) = [line for line in targets.table(figures) if line.startswith(f"| {what}")]
    return row


def test_without_a_gpu_it_says_so_and_exits_with_2(tmp_path):
    environment = {**os.environ, "PATH": f"{tmp_path}:/usr/bin:/bin"}
    (tmp_path / "nvidia-smi").write_text("#!/bin/sh\nexit 9\n")
    (tmp_path / "nvidia-smi").chmod(0o755)
    command = ["bash", str(ROOT / "tests" / "run.sh"), "--gpu"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=480)
    assert done.returncode == 2
    assert "no GPU" in done.stderr


def test_results_say_what_passed_failed_and_was_not_run(tmp_path, monkeypatch):
    (tmp_path / "docs" / "measurements").mkdir(parents=True)
    monkeypatch.setattr(run, "ROOT", tmp_path)
    results = run.Results()
    python = [sys.executable, "-c"]
    line = 'print(\'[0] {"figure": "top-k", "times_faster": 3}\')'
    results.run(run.Part("good", [*python, line]))
    results.run(run.Part("bad", [*python, "raise SystemExit(3)"]))
    results.run(run.Part("wanted", [*python, "print('KILLED-OK'); exit(1)"], want="KILLED-OK"))
    results.run(run.Part("heard", [*python, "import os; exit(os.environ['A'] != 'b')"], {"A": "b"}))
    results.run(run.Part("absent", [str(tmp_path / "nothing")]))
    results.run(run.Part("other", [*python, ""], missing="it is not installed"))
    results.write(["one"])
    text = (tmp_path / "docs" / "measurements" / "gpu.md").read_text()
    assert results.failed
    for part in ("good: passed", "bad: FAILED", "wanted: passed", "heard: passed"):
        assert f"- {part}\n" in text
    assert "- absent: FAILED\n" in text
    assert "- other: NOT RUN, it is not installed\n" in text
    assert '`{"figure": "top-k", "times_faster": 3}`' in text
    assert "- GPU: one\n" in text
    assert "torch.topk, in speed | >= 5 x | 3 x | MISSED |" in text


def test_each_target_is_met_by_good_figures():
    rows = targets.table(GOOD)[2:]
    assert len(rows) == 5
    assert all(row.endswith("| met |") for row in rows), rows
    assert "| <= 1.03 x | 1.01 x | met |" in row_of(GOOD, "fused")
    assert "| >= 85 % | 90 % | met |" in row_of(GOOD, "pack")


@pytest.mark.parametrize(
    ("what", "bad"),
    [
        ("pack", {"figure": "pack of 161 gradients", "pack_share": 0.9, "unpack_share": 0.84}),
        ("fused", {"figure": "fused allreduce", "ronde_ms": 1.05, "nccl_ms": 1.0}),
        ("host", {"figure": "host time of a fused collective", "cpu_us": 20.5}),
        ("top-k", {"figure": "top-k", "times_faster": 4.9}),
        ("int8", {"figure": "int8 encode with error feedback", "share": 0.69}),
    ],
)
def test_one_bad_figure_among_good_ones_misses_its_target(what, bad):
    assert row_of([*GOOD, bad], what).endswith("| MISSED |")


def test_a_figure_without_its_number_counts_as_not_run():
    figures = [{"figure": "pack of 161 gradients", "pack_share": 0.93}]
    assert "| NOT RUN | |" in row_of(figures, "pack")
    assert all("| NOT RUN | |" in row for row in targets.table([])[2:])


def test_without_a_gpu_every_part_and_figure_is_written_as_not_run(tmp_path, monkeypatch):
    (tmp_path / "docs" / "measurements").mkdir(parents=True)
    monkeypatch.setattr(run, "ROOT", tmp_path)
    monkeypatch.setattr(sys, "argv", ["run.py", "--without-gpu"])
    assert run.main() == 0
    text = (tmp_path / "docs" / "measurements" / "gpu.md").read_text()
    parts = run.all_parts(0)
    assert len({part.name for part in parts}) == len(parts) > 8
    for part in parts:
        assert f"- {part.name}: NOT RUN, no GPU\n" in text
    assert text.count("| NOT RUN | |") == len(targets.TARGETS)
    assert "passed" not in text
    assert str(ROOT) not in text


def test_the_page_in_docs_has_the_parts_and_targets_that_there_are():
    text = (ROOT / "docs" / "measurements" / "gpu.md").read_text()
    for part in run.all_parts(0):
        assert f"- {part.name}: " in text, "run tests/gpu/run.py [--without-gpu] again"
    for target in targets.TARGETS:
        assert f"| {target.what} | {target.asked()} |" in text


def test_one_gpu_is_shared_by_two_ranks():
    assert run.ranks_for(1) == (2, {"NCCL_MULTI_RANK_GPU_ENABLE": "1"})
    assert run.ranks_for(4) == (4, {})
