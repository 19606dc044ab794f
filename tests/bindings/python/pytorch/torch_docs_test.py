"""The examples of docs/pytorch.md and docs/compression.md, as they stand there."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[4] / "docs"
EXAMPLES = [
    example
    for page in ("pytorch.md", "compression.md")
    for example in re.findall(
        r"^```python\n(.*?)^```", (DOCS / page).read_text(), re.MULTILINE | re.DOTALL
    )
]


def starts_its_own_ranks(example):
    return "ronde.run(" in example


def test_examples_run_on_two_ranks(run_job, tmp_path):
    plain = [example for example in EXAMPLES if not starts_its_own_ranks(example)]
    assert len(plain) >= 5
    (tmp_path / "examples").mkdir()
    for number, example in enumerate(plain):
        (tmp_path / "examples" / f"{number}.py").write_text(example)
    status, output = run_job(
        """
        import pathlib, runpy, sys

        for path in sorted(pathlib.Path(sys.argv[1]).iterdir()):
            runpy.run_path(str(path))
        print("all ran")
        """,
        arguments=[tmp_path / "examples"],
    )
    assert status == 0, output
    assert output.count("all ran") == 2, output


@pytest.mark.parametrize("example", [*filter(starts_its_own_ranks, EXAMPLES)])
def test_examples_that_start_ranks_run(example, tmp_path):
    script = tmp_path / "example.py"
    script.write_text(example)
    done = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, timeout=480, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
