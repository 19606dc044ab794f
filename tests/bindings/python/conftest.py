"""Runs real jobs: several processes by `ronde run`, and functions as cases inside them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
LIMIT_S = 120


def launch(command, np, environment=None, options=()):
    """Starts `command` on np ranks, in a process group of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "ronde", "run", "-np", str(np), *options, "--", *command],
        env={**os.environ, "OMP_NUM_THREADS": "1", **(environment or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def finish(process, limit_s=LIMIT_S):
    """(exit status, output); a job that overruns the limit is killed and fails the test."""
    try:
        output, _ = process.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
        pytest.fail(f"the job did not end within {limit_s} s; its output:\n{output}")
    return process.returncode, output


@pytest.fixture
def run_job(tmp_path):
    """run_job(script, np=2, ...) -> (exit status, output) of a job whose ranks run `script`."""

    def run(script, np=2, arguments=(), environment=None, options=(), limit_s=LIMIT_S):
        path = tmp_path / "script.py"
        path.write_text(textwrap.dedent(script))
        command = [sys.executable, str(path), *map(str, arguments)]
        return finish(launch(command, np, environment, options), limit_s)

    return run


class CaseResults:
    """What every rank says about the cases of some files, run in one job."""

    def __init__(self, files, np, folder, python=sys.executable, options=()):
        """Runs the job; each rank writes its results as it goes."""
        command = [python, str(HERE / "run_cases.py"), str(folder)]
        command += [str(HERE / file) for file in files]
        # A case that fails on one rank alone must not hold up the others.
        environment = {"RONDE_STALL_ERROR_SECONDS": "10"}
        self.status, self.output = finish(launch(command, np, environment, options), 240)
        self.ranks = []
        for rank in range(np):
            path = folder / f"{rank}.jsonl"
            lines = path.read_text().splitlines() if path.exists() else []
            self.ranks.append(dict(json.loads(line) for line in lines))

    def check(self, name):
        """Fails unless every rank finished the case well."""
        for rank, results in enumerate(self.ranks):
            if name not in results:
                pytest.fail(f"rank {rank} did not get to {name}; output:\n{self.output}")
            if results[name]:
                pytest.fail(f"on rank {rank}:\n{results[name]}")


@pytest.fixture(scope="session")
def case_results(tmp_path_factory):
    """case_results(files, np) -> CaseResults; the same files and size run once."""
    known = {}

    def get(files, np):
        if (files, np) not in known:
            known[files, np] = CaseResults(files, np, tmp_path_factory.mktemp("cases"))
        return known[files, np]

    return get
