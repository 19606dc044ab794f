"""The failure of a case shows its cause: the other tests rely on it."""

import os
import subprocess
import sys
import time

import pytest
from jobs import HERE, CaseResults

CASES = """
import time

def case_good():
    pass

def case_wrong():
    assert 1 + 1 == 3, "the sum is wrong"

def case_endless():
    time.sleep(1000)
"""


class Impatient(CaseResults):
    """Has waited long enough as soon as all ranks are in the last case."""

    def wait(self, process, limit_s):
        while any(self._text(rank, "jsonl").count("\n") < 2 for rank in range(self.np)):
            assert process.poll() is None
            time.sleep(0.1)
        return super().wait(process, limit_s)


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cases")
    (folder / "cases.py").write_text(CASES)
    return Impatient([folder / "cases.py"], 2, folder, limit_s=0.5)


def complaint(results, case):
    with pytest.raises(pytest.fail.Exception) as failed:
        results.check(case)
    return str(failed.value)


def test_a_case_that_ended_well_counts_though_a_later_one_hung(results):
    results.check("case_good")


def test_a_failure_begins_with_the_assertion(results):
    first = complaint(results, "case_wrong").splitlines()[0]
    assert first == "on rank 0: AssertionError: the sum is wrong"


def test_a_job_that_overruns_its_limit_fails_the_case_that_hung_and_shows_where(results):
    text = complaint(results, "case_endless")
    assert "did not finish case_endless: the job was killed after 0.5 s" in text.splitlines()[0]
    assert "in case_endless" in text


def test_what_a_killed_process_leaves_in_the_temporary_directory_goes_with_the_run(tmp_path):
    (tmp_path / "leaving_test.py").write_text(
        "import subprocess, sys\n"
        "def test_leaves_a_file():\n"
        "    script = 'import os, tempfile as t; print(t.mkstemp()[1], flush=True); os._exit(0)'\n"
        "    print(subprocess.check_output([sys.executable, '-c', script], text=True))\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-s", "-p", "conftest"]
    command += ["-p", "no:cacheprovider", "-c", "/dev/null", "--rootdir", str(tmp_path)]
    output = subprocess.check_output(
        [*command, str(tmp_path / "leaving_test.py")],
        env={**os.environ, "PYTHONPATH": str(HERE)},
        text=True,
    )
    assert "1 passed" in output
    left = next(line for line in output.splitlines() if line.startswith(os.sep))
    assert "ronde-tests-" in left
    assert not os.path.exists(left)
