"""The C++ examples run, and the training loop learns the same on two ranks as on one."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
BUILD = ROOT / "build" / "release"
RONDE = BUILD / "bindings" / "cli" / "ronde"
EXAMPLES = BUILD / "examples"

pytestmark = pytest.mark.skipif(
    not (EXAMPLES / "digits_mlp").exists(), reason="build/release holds no C++ examples"
)


def run(ranks: int, *command: str) -> str:
    """The output of a job of `ranks` ranks, which must succeed."""
    job = subprocess.run(
        [str(RONDE), "run", "-np", str(ranks), *command],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert job.returncode == 0, job.stdout + job.stderr
    return job.stdout


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("digits") / "digits.csv"
    subprocess.run(
        [sys.executable, str(ROOT / "examples" / "export_digits.py"), str(path)], check=True
    )
    return str(path)


def train(ranks: int, digits: str, share: int) -> tuple[list[float], float]:
    """The loss of each epoch, and the accuracy on digits that were not trained on."""
    text = run(ranks, str(EXAMPLES / "digits_mlp"), digits, str(share))
    losses = [float(x) for x in re.findall(r"loss ([0-9.]+)", text)]
    return losses, float(re.findall(r"test accuracy ([0-9.]+)", text)[0])


def test_two_ranks_learn_as_one_with_the_doubled_batch(digits: str) -> None:
    two, accuracy = train(2, digits, 32)
    one, _ = train(1, digits, 64)
    assert accuracy >= 0.95
    assert len(two) == len(one) == 20
    assert two[-1] < two[0] / 4
    for ours, theirs in zip(two, one):
        assert abs(ours - theirs) <= 1e-3 * theirs


@pytest.mark.parametrize(
    ("example", "ranks", "expected"),
    [
        ("01_allreduce", 2, "[1] rank 1 of 2: the average rank is 0.5"),
        ("01_allreduce", 1, "the average rank is 0.0"),
        ("02_async", 2, "every element is 2"),
        ("03_uneven", 3, "[2] rank 2 gathered 6 rows; the last is of rank 2"),
        ("03_uneven", 3, "[1] rank 1 got 6 letters"),
        ("04_process_sets", 4, "[3] rank 3: the odd ranks sum to 4"),
        ("05_send_recv", 3, "the ring of 3 ranks sums to 3"),
        ("06_raw_group", 2, "each element is 2"),
        ("07_elastic", 2, "[1] rank 1 of 2: 300 steps"),
        ("08_sharded", 2, "[1] rank 1: bias 1.00 after 1000 steps; 1024 bytes of state for 1024 "),
    ],
)
def test_each_example_says_what_it_should(example: str, ranks: int, expected: str) -> None:
    assert expected in run(ranks, str(EXAMPLES / example))


def test_the_elastic_example_survives_the_death_of_a_rank() -> None:
    job = subprocess.Popen(
        [str(RONDE), "run", "-np", "3", "--min-np", "1", str(EXAMPLES / "07_elastic")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert job.stderr is not None
    told = ""
    while "epoch 1: 3 workers begin" not in told:
        told = job.stderr.readline()
        assert told, "the job has ended"
    workers = subprocess.run(
        ["pgrep", "-f", f"^{EXAMPLES}/07_elastic"], capture_output=True, text=True, check=True
    )
    os.kill(int(workers.stdout.split()[0]), signal.SIGKILL)
    output, errors = job.communicate(timeout=480)
    assert job.returncode == 0, output + errors
    assert output.count(": 300 steps") >= 2
    assert "was killed by signal 9" in errors
