"""The training examples: they learn, and the number of ranks does not change what they learn."""

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "bindings" / "python"))
from jobs import LIMIT_S, finish, launch  # noqa: E402
from support.volume import ALL  # noqa: E402

pytest.importorskip("torch")


EXAMPLES = sorted((ROOT / "examples").glob("train_*.py"))
LONGEST = 120  # lines
AT_FULL_SIZE = {
    "train_gpt.py": ["--target", "2.4"],
    "train_gpt_3d.py": ["--pipeline", "2", "--tensor", "1", "--target", "2.8"],
    "train_pipeline.py": ["--target", "2.8"],
    "train_resnet.py": [],
    "train_digits.py": ["--target", "0.9"],
    "train_digits_keras.py": ["--target", "0.9"],
    "train_digits_tensorflow.py": ["--target", "0.9"],
    "train_ddp.py": ["--target", "0.9"],
    "train_accelerate.py": ["--target", "0.88"],
    "train_uneven.py": [],
    "train_recommender.py": [],
    "train_moe.py": ["--top", "2"],
}
NEEDS = {"train_accelerate.py": "accelerate", "train_digits_keras.py": "keras",
         "train_digits_tensorflow.py": "tensorflow"}  # fmt: skip


def run(np, *arguments, script="train_gpt.py", limit_s=LIMIT_S):
    command = [sys.executable, str(ROOT / "examples" / script), *map(str, arguments)]
    status, output = finish(launch(command, np), limit_s)
    assert status == 0, output
    return output


SMALL = ("--steps", 20, "--length", 16, "--write", 20)


def losses_of(folder, np, *arguments, script="train_gpt.py"):
    file = folder / "losses.json"
    run(np, "--losses", file, *arguments, script=script)
    return json.loads(file.read_text())


def assert_same_curve(ours, single, tolerance):
    assert len(ours) == len(single)
    for mine, theirs in zip(ours, single):
        assert mine == pytest.approx(theirs, rel=tolerance)


@pytest.fixture(scope="module")
def single(tmp_path_factory):
    """The losses of one process with the whole batch."""
    return losses_of(tmp_path_factory.mktemp("single"), 1, *SMALL)


@pytest.mark.parametrize(("np", "style"), [(2, "ddp"), (2, "fsdp2"), (3, "hvd")])
def test_the_loss_curve_is_that_of_one_process_with_the_joined_batch(tmp_path, single, np, style):
    assert_same_curve(losses_of(tmp_path, np, *SMALL, "--style", style), single, 1e-3)
    assert single[-1] < single[0] - 0.5


def test_a_pipeline_trains_as_one_process_and_its_report_names_the_slow_stage(tmp_path):
    trace, file = tmp_path / "trace.json", tmp_path / "losses.json"
    script = ROOT / "examples" / "train_pipeline.py"
    small = ("--steps", "12", "--length", "32", "--losses", file, "--blocks", "1", "3")
    command = [sys.executable, str(script), *map(str, small)]
    status, output = finish(launch(command, 2, options=["--timeline", str(trace)]))
    assert status == 0, output
    assert_same_curve(json.loads(file.read_text()), losses_of_one(12, layers=4, length=32), 1e-4)
    report = [sys.executable, "-m", "ronde", "timeline", "report", str(trace), "--json"]
    pipeline = json.loads(subprocess.check_output(report, text=True))["pipeline"]
    assert [stage["ranks"] for stage in pipeline["stages"]] == [[0], [1]]
    assert pipeline["slowest"] == 1
    assert 0.05 < pipeline["bubble"] < 0.9
    assert pipeline["schedule"] < pipeline["bubble"]


def losses_of_one(steps, layers, length):
    """Of the same training in this process."""
    sys.path.insert(0, str(ROOT / "examples"))
    import torch
    from character_model import CharacterModel, batch_of, load_text, loss_of

    torch.manual_seed(0)
    model, text = CharacterModel(layers=layers, longest=length), load_text()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
    losses = []
    for step in range(steps):
        optimizer.zero_grad()
        loss = loss_of(model, *batch_of(text, step, rows=24, length=length))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def test_training_goes_on_from_a_checkpoint_with_another_number_of_ranks(tmp_path):
    def trained(np, *arguments):
        common = ("--length", 16, "--double", "--save-every", 3, "--steps", 8)
        return losses_of(tmp_path, np, *common, *arguments, script="train_checkpoint.py")

    whole = trained(1, "--checkpoint", tmp_path / "whole.pt")
    begun = trained(2, "--checkpoint", tmp_path / "state.pt", "--stop-after", 4)
    ended = trained(3, "--checkpoint", tmp_path / "state.pt")
    assert (len(begun), len(ended)) == (4, 4)
    assert_same_curve(begun + ended, whole, 1e-9)


def test_resnet_says_how_many_images_it_trains_on_in_a_second():
    small = ("--image-size", 32, "--batch-size", 2, "--rounds", 2, "--steps", 1, "--warm-up", 1)
    output = run(2, *small, "--model", "resnet18", script="train_resnet.py")
    assert "resnet18 on 2 ranks: " in output
    assert output.count("images/s") == 3


def test_accelerate_trains_over_ronde():
    pytest.importorskip("accelerate")
    pytest.importorskip("sklearn")
    output = run(2, "--epochs", 2, "--target", 0.7, script="train_accelerate.py")
    assert output.count("test accuracy") == 2, output


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_an_example_is_short_enough_to_read(path):
    assert len(path.read_text().splitlines()) < LONGEST


@ALL
@pytest.mark.parametrize("script", AT_FULL_SIZE)
def test_an_example_runs_as_it_is_started_by_people(script):
    if script in NEEDS and importlib.util.find_spec(NEEDS[script]) is None:
        pytest.skip(f"{NEEDS[script]} is not installed")
    run(2, *AT_FULL_SIZE[script], script=script, limit_s=1800)


def test_tables_dealt_over_ranks_learn():
    output = run(3, "--steps", 100, script="train_recommender.py")
    assert "rank 1 keeps 7000 of 21000 rows" in output, output
    error, of_mean = re.search(r"ratings ([\d.]+), of always the mean ([\d.]+)", output).groups()
    assert float(error) < 0.9 * float(of_mean), output


def test_experts_on_all_ranks_learn():
    pytest.importorskip("sklearn")
    output = run(2, "--epochs", 3, script="train_moe.py")
    assert float(re.search(r"accuracy with 2 experts ([\d.]+)%", output)[1]) > 80, output


def test_ranks_without_data_join_the_others():
    pytest.importorskip("sklearn")
    output = run(3, script="train_uneven.py")
    assert "accuracy on all shares 9" in output, output
