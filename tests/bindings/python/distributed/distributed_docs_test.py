"""The examples of docs/torch-distributed.md, and the DDP script in examples/."""

import re
import sys
from pathlib import Path

import pytest
from jobs import finish, launch

ROOT = Path(__file__).resolve().parents[4]
PAGE = ROOT / "docs" / "torch-distributed.md"
EXAMPLES = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)


def test_examples_on_the_page_run_one_after_the_other(run_job):
    script = "\n".join([*EXAMPLES, "print('all ran')"])
    status, output = run_job(script)
    assert status == 0, output
    assert output.count("all ran") == 2, output


def test_the_ddp_script_learns():
    pytest.importorskip("sklearn")
    script = ROOT / "examples" / "train_ddp.py"
    arguments = ["--epochs", "2", "--target", "0.8"]
    status, output = finish(launch([sys.executable, str(script), *arguments], 2))
    assert status == 0, output
    assert "epoch 2: loss" in output, output


def test_the_comparison_of_what_communication_adds_runs():
    script = ROOT / "examples" / "compare_overlap.py"
    few = ["--rounds", "1", "--width", "16", "--layers", "1", "--rows", "1"]
    status, output = finish(launch([sys.executable, str(script), *few], 2))
    assert status == 0, output
    assert re.search(r"DDP over ronde +step", output), output
