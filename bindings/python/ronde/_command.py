"""The console scripts: they become the C++ `ronde` command that the package carries."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def program() -> Path:
    """The path of this package's `ronde` command. Raises FileNotFoundError if it has none."""
    path = Path(__file__).resolve().parent / "ronde"
    if not path.exists():
        raise FileNotFoundError(f"this build of the ronde package has no command line ({path})")
    return path


def _become(name: str) -> None:
    os.environ["RONDE_PYTHON"] = sys.executable  # for parts of the program that Python does
    try:
        os.execv(program(), [name, *sys.argv[1:]])
    except FileNotFoundError as error:
        sys.exit(f"{name}: {error}")


def main() -> None:
    """`ronde`: run, bench, doctor, timeline, build, top."""
    _become("ronde")


def horovodrun() -> None:
    """`horovodrun`: the same program, which takes horovodrun's flags under this name."""
    _become("horovodrun")
