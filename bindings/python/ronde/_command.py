"""The console scripts: they become the C++ `ronde` command that the package carries."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def program() -> Path:
    """The `ronde` command of this package. Raises FileNotFoundError where it has none."""
    path = Path(__file__).resolve().parent / "ronde"
    if not path.exists():
        raise FileNotFoundError(f"this build of the ronde package has no command line ({path})")
    return path


def _become(name: str) -> None:
    if sys.argv[1:3] == ["timeline", "view"]:
        os.environ["RONDE_PYTHON"] = sys.executable  # which serves the viewer
    try:
        os.execv(program(), [name, *sys.argv[1:]])
    except FileNotFoundError as error:
        sys.exit(f"{name}: {error}")


def main() -> None:
    """`ronde`: run, bench, doctor, timeline; and build, which needs this Python."""
    if sys.argv[1:2] == ["build"]:
        _build(sys.argv[2:])
    else:
        _become("ronde")


def _build(arguments: list[str]) -> None:
    """`ronde build tensorflow`: compiles the graph ops ahead, for the TensorFlow of this Python."""
    if arguments != ["tensorflow"]:
        print("usage: ronde build tensorflow", file=sys.stderr)
        sys.exit(0 if arguments in (["-h"], ["--help"]) else 2)
    try:
        from ronde.tensorflow import _build as build
    except ImportError as error:
        sys.exit(f"ronde build tensorflow: {error}")
    build.main()


def horovodrun() -> None:
    """`horovodrun`: the same program, which takes horovodrun's flags under this name."""
    _become("horovodrun")
