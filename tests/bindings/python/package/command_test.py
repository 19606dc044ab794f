"""The `ronde` command as the package gives it: what it lists, and what needs Python."""

import os
import subprocess
import sys

import pytest
from ronde._command import program


def ronde(*arguments, command=(sys.executable, "-m", "ronde")):
    environment = {k: v for k, v in os.environ.items() if k != "RONDE_PYTHON"}
    return subprocess.run(
        [*command, *arguments], env=environment, capture_output=True, text=True, check=False
    )


def test_help_lists_every_command():
    text = ronde("--help").stdout
    for name in ("run", "bench", "doctor", "timeline", "top", "build"):
        assert f"\n  {name} " in text, text


def test_build_says_what_can_be_built():
    assert "tensorflow" in ronde("build", "--help").stdout
    refused = ronde("build", "nothing")
    assert refused.returncode == 2
    assert "nothing not in {tensorflow}" in refused.stderr


@pytest.mark.parametrize("arguments", [("build", "tensorflow"), ("timeline", "view", "x.json")])
def test_what_python_does_needs_the_package(arguments):
    alone = ronde(*arguments, command=[str(program())])
    assert alone.returncode == 2
    assert "use the ronde command of the Python package" in alone.stderr.replace("\n", " ")
