"""Runs the programs of the guides: two ranks of one job for each page.

A block fenced as ```python is a whole program; one fenced as ```py is a part of one, and is only
parsed. The README's examples are run by readme.py.
"""

from __future__ import annotations

import ast
import importlib.util
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
BLOCK = re.compile(r"^( *)```(python|py)\b[^\n]*\n(.*?)^\1```", re.MULTILINE | re.DOTALL)
LIMIT_S = 300
# Pages whose programs need more than two ranks of one host.
ELSEWHERE = {"clusters/ray.md": "Ray's tests", "clusters/ssh.md": "hosts that ssh reaches"}
# Runs each program in a module of its own, and ends the job that it has begun.
RUNNER = """
import runpy, sys
for program in sys.argv[1:]:
    print("program", program, flush=True)
    runpy.run_path(program, run_name="__main__")
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_initialized():
        distributed.destroy_process_group()
    if "ronde" in sys.modules:
        sys.modules["ronde"].shutdown()
"""


def blocks(page: Path, fence: str) -> list[str]:
    """The page's blocks with this fence, without the page's indentation."""
    found = BLOCK.findall(page.read_text())
    return [textwrap.dedent(text) for _, kind, text in found if kind == fence]


def pages(fence: str) -> list[str]:
    every = sorted(page for page in DOCS.rglob("*.md") if blocks(page, fence))
    return [str(page.relative_to(DOCS)) for page in every]


@pytest.mark.parametrize("name", [page for page in pages("python") if page not in ELSEWHERE])
def test_each_program_of_a_page_runs(tmp_path, name):
    programs = blocks(DOCS / name, "python")
    if any("keras" in text for text in programs) and importlib.util.find_spec("keras") is None:
        pytest.skip("TensorFlow is not installed")
    files = [tmp_path / f"block{number}.py" for number in range(len(programs))]
    for file, text in zip(files, programs):
        file.write_text(text)
    command = [sys.executable, "-m", "ronde", "run", "-np", "2", "--", sys.executable, "-c", RUNNER]
    done = subprocess.run(
        [*command, *files], cwd=tmp_path, capture_output=True, text=True, timeout=LIMIT_S,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", sorted({*pages("py"), *ELSEWHERE}))
def test_each_part_of_a_program_can_be_parsed(name):
    for text in blocks(DOCS / name, "py") + blocks(DOCS / name, "python"):
        ast.parse(text)
