"""Runs the README's examples, so that what it shows works.

A block fenced as ```python is run by two ranks. Of a block fenced as ```bash the lines that start
with `.venv/bin/ronde` are run, from the repository root. Other blocks are no examples.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"^```(python|bash)\n(.*?)^```", re.MULTILINE | re.DOTALL)
LIMIT_S = 180


def commands(kind: str, text: str, folder: Path, number: int) -> list[list[str]]:
    """What to run for one block."""
    if kind == "python":
        script = folder / f"example{number}.py"
        script.write_text(text)
        return [
            [sys.executable, "-m", "ronde", "run", "-np", "2", "--", sys.executable, str(script)]
        ]
    lines = text.replace("\\\n", " ").splitlines()
    return [["bash", "-ec", line] for line in lines if line.startswith(".venv/bin/ronde ")]


def main() -> int:
    """Runs every example; returns the exit status."""
    blocks = BLOCK.findall((ROOT / "README.md").read_text())
    failed = ran = 0
    with tempfile.TemporaryDirectory() as folder:
        for number, (kind, text) in enumerate(blocks):
            for command in commands(kind, text, Path(folder), number):
                print("$", " ".join(command[-3:]), flush=True)
                result = subprocess.run(command, cwd=ROOT, timeout=LIMIT_S, check=False)
                ran += 1
                failed += result.returncode != 0
    print(f"{ran} examples ran, {failed} failed")
    return 1 if failed or not ran else 0


if __name__ == "__main__":
    sys.exit(main())
