"""The training examples: they learn, and the number of ranks does not change what they learn."""

import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "bindings" / "python"))
from conftest import finish, launch  # noqa: E402

pytest.importorskip("torch")


def run(np, *arguments, script="train_characters.py"):
    command = [sys.executable, str(ROOT / "examples" / script), *map(str, arguments)]
    status, output = finish(launch(command, np))
    assert status == 0, output
    return output


def losses_of(folder, np, *arguments):
    file = folder / "losses.json"
    run(np, "--losses", file, *arguments)
    return json.loads(file.read_text())


def assert_same_curve(ours, single, tolerance):
    assert len(ours) == len(single)
    for mine, theirs in zip(ours, single):
        assert mine == pytest.approx(theirs, rel=tolerance)


@pytest.fixture(scope="module")
def single(tmp_path_factory):
    """The losses of one process with the whole batch."""
    return losses_of(tmp_path_factory.mktemp("single"), 1, "--steps", 20, "--length", 16)


@pytest.mark.parametrize(("np", "style"), [(2, "ddp"), (2, "fsdp"), (3, "optimizer")])
def test_the_loss_curve_is_that_of_one_process_with_the_joined_batch(tmp_path, single, np, style):
    arguments = ("--steps", 20, "--length", 16, "--style", style)
    assert_same_curve(losses_of(tmp_path, np, *arguments), single, 1e-3)
    assert single[-1] < single[0] - 0.5


def test_training_goes_on_from_a_checkpoint_with_another_number_of_ranks(tmp_path):
    common = ("--length", 16, "--double")
    whole = losses_of(tmp_path, 1, "--steps", 8, *common)
    state = tmp_path / "state.pt"
    begun = losses_of(tmp_path, 2, "--steps", 4, "--checkpoint", state, *common)
    ended = losses_of(tmp_path, 3, "--steps", 8, "--checkpoint", state, *common)
    assert_same_curve(begun + ended, whole, 1e-9)


def test_ranks_without_data_join_the_others():
    pytest.importorskip("sklearn")
    output = run(3, script="train_uneven.py")
    assert "accuracy on all shares 9" in output, output
