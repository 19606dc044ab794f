"""`ronde build tensorflow`: what it says while it compiles."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import threading

import pytest

pytest.importorskip("tensorflow")
BUILD = [sys.executable, "-m", "ronde", "build", "tensorflow"]
LIMIT_S = 300


@pytest.fixture
def compiler(tmp_path):
    """The environment of a compiler that ends with the status written to its FIFO, `end`."""
    program = tmp_path / "c++"
    program.write_text(f"#!/bin/sh\ncat > /dev/null\nexit $(cat {tmp_path}/end)\n")
    program.chmod(0o755)
    os.mkfifo(tmp_path / "end")
    limit = threading.Timer(LIMIT_S, (tmp_path / "end").write_text, ["1"])
    limit.start()
    yield {**os.environ, "CXX": str(program), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    limit.cancel()


def lines_until(stream, part):
    """The lines up to the first one with `part`."""
    lines = []
    for line in stream:
        lines.append(line)
        if part in line:
            return lines
    raise AssertionError(f"{part!r} is not in {lines}")


def test_a_long_compilation_says_that_it_still_runs(compiler, tmp_path):
    with subprocess.Popen(BUILD, stderr=subprocess.PIPE, text=True, env=compiler) as build:
        told = lines_until(build.stderr, "still compiling after ")
        (tmp_path / "end").write_text("0")
        rest = build.stderr.read()
    assert build.returncode == 0, rest
    assert "compiling its operations for TensorFlow" in "".join(told)
    assert rest.startswith("ronde: compiled in ")


def test_on_a_terminal_the_time_is_shown_in_place(compiler, tmp_path):
    ours, theirs = pty.openpty()
    with subprocess.Popen(BUILD, stderr=theirs, env=compiler) as build:
        os.close(theirs)
        text = b""
        while text.count(b"\rronde: still compiling after ") < 2:
            text += os.read(ours, 4096)
        (tmp_path / "end").write_text("1")
    os.close(ours)
    assert build.returncode == 1
    assert b"\n" not in text[text.index(b"\rronde: still") :]
