"""The console scripts: they become the C++ `ronde` command that the package carries."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def _become(name: str) -> None:
    program = Path(__file__).resolve().with_name("ronde")
    if not program.exists():
        sys.exit(f"{name}: this build of the ronde package has no command line ({program})")
    os.execv(program, [name, *sys.argv[1:]])


def main() -> None:
    """`ronde`: run, bench, doctor, timeline."""
    _become("ronde")


def horovodrun() -> None:
    """`horovodrun`: the same program, which takes horovodrun's flags under this name."""
    _become("horovodrun")
