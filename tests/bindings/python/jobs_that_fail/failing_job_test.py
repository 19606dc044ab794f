"""The end of jobs that fail, as their terminal shows it."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

MOST_LINES = 25  # for 8 ranks

TRAINING = """
    import os, signal, sys, time
    import numpy as np
    import ronde

    def load(batch):
        if batch == 5 and ronde.rank() == 1:
            {failure}

    ronde.init()
    for batch in range(10):
        load(batch)
        ronde.allreduce(np.ones(1000, np.float32), name="gradient")
"""


def last_lines(output):
    return [line for line in output.splitlines() if line.startswith("ronde run: ")]


@pytest.mark.parametrize(
    ("np", "failure", "exit_status", "cause"),
    [
        (
            8,
            'raise ValueError(f"bad batch {batch}")',
            1,
            r"ValueError: bad batch 5 \(script\.py:8\)$",
        ),
        (
            4,
            "os.kill(os.getpid(), signal.SIGKILL)",
            137,
            r"it was killed by signal 9 \(Killed\)",
        ),
        (3, "os.kill(os.getpid(), signal.SIGSEGV)", 139, "it was killed by signal 11"),
        (3, "sys.exit(3)", 3, "it exited with status 3"),
    ],
)
def test_a_failure_of_one_rank_is_summed_up(run_job, np, failure, exit_status, cause):
    status, output = run_job(TRAINING.format(failure=failure), np=np)
    assert status == exit_status, output
    first, others, end = last_lines(output)
    assert re.match("ronde run: rank 1 failed first: " + cause, first), output
    assert re.search(r"rank 1 \(pid \d+\) .*; ranks 0, 2[-7,3 ]* failed in consequence$", others)
    assert end.startswith(f"ronde run: exit status {exit_status}; --verbose"), output
    assert output.splitlines()[-3:] == [first, others, end]
    assert len(output.splitlines()) <= MOST_LINES, output
    for rank in set(range(np)) - {1}:
        lines = [line for line in output.splitlines() if line.startswith(f"[{rank}] ")]
        assert len(lines) == 1, output
        assert "RankFailure: rank 1 " in lines[0], output


DDP = """
    import os, signal
    import torch
    import torch.distributed as dist
    import ronde.torch.distributed

    dist.init_process_group("ronde")
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 2))
    for step in range(4):
        if step == 2 and dist.get_rank() == 1:
            {failure}
        model(torch.ones(8, 4)).sum().backward()
"""


@pytest.mark.parametrize(
    ("failure", "exit_status", "cause"),
    [
        ("1 / 0", 1, r"ZeroDivisionError: division by zero \(script\.py:11\)$"),
        ("os.kill(os.getpid(), signal.SIGKILL)", 137, r"it was killed by signal 9 \(Killed\)$"),
    ],
)
def test_a_failure_in_a_script_of_torch_distributed_is_summed_up(
    run_job, failure, exit_status, cause
):
    status, output = run_job(DDP.format(failure=failure), np=2)
    assert status == exit_status, output
    first, others, _ = last_lines(output)
    assert re.match("ronde run: rank 1 failed first: " + cause, first), output
    assert others.endswith("; rank 0 failed in consequence"), output
    assert re.search(r"^\[0\] RankFailure: rank 1 .*\(script\.py:12\)$", output, re.MULTILINE), (
        output
    )
    assert "[rank" not in output
    assert "site-packages/ronde" not in output


def test_a_rank_that_leaves_early_is_named(run_job):
    status, output = run_job(TRAINING.format(failure="sys.exit(0)"), np=2)
    assert status == 1, output
    first, others, _ = last_lines(output)
    named = "rank 1 left first, as rank 0 reports: RankFailure: rank 1 has left the job"
    assert first.startswith("ronde run: " + named), output
    assert re.search(r"rank 1 \(pid \d+\) exited with status 0; rank 0 failed in", others), output


def test_a_stall_is_summed_up(run_job):
    stalled = {"RONDE_STALL_WARNING_SECONDS": "1", "RONDE_STALL_ERROR_SECONDS": "2"}
    status, output = run_job(TRAINING.format(failure="time.sleep(60)"), 4, environment=stalled)
    assert status == 1, output
    first, others, _ = last_lines(output)
    assert re.search(r"failed first: StalledError: .* for rank 1; .*\(script\.py:13\)$", first)
    assert "rank 1 ended when asked to" in others, output
    assert len(output.splitlines()) <= MOST_LINES, output


def test_a_stall_is_told_of_by_one_rank_which_names_the_doctor(run_job):
    stalled = {"RONDE_STALL_WARNING_SECONDS": "1"}
    status, output = run_job(TRAINING.format(failure="time.sleep(4)"), 4, environment=stalled)
    assert status == 0, output
    warnings = [line for line in output.splitlines() if "has waited" in line]
    warning = r'\[0\] .* allreduce "gradient" has waited \d s for rank 1; `ronde doctor --job`'
    assert warnings, output
    assert all(re.match(warning, line) for line in warnings), output
    assert "pending:" not in output


def test_a_missing_horovod_is_followed_by_the_remedy(run_job):
    status, output = run_job("raise ModuleNotFoundError(\"No module named 'horovod'\")", np=2)
    assert status == 1
    assert last_lines(output)[2].startswith("ronde run: start the script by horovodrun"), output


def test_the_same_error_on_all_ranks_is_shown_once(run_job):
    status, output = run_job("import no_such_module", np=4)
    assert status == 1
    assert output.count("Traceback") == 1, output
    assert re.search(r"; ranks [\d, -]+ failed alike$", last_lines(output)[1]), output


def test_interrupted_ranks_are_told_by_their_lines(run_job, tmp_path):
    script = """
        import os, signal, sys, time
        open(f"{sys.argv[1]}/up{os.environ['RONDE_RANK']}", "w").close()
        if os.environ["RONDE_RANK"] == "0":
            while not os.path.exists(f"{sys.argv[1]}/up1"):
                time.sleep(0.01)
            launcher = open(f"/proc/{os.getppid()}/stat").read().split()[3]  # the agent's parent
            os.kill(int(launcher), signal.SIGINT)
        time.sleep(60)
    """
    status, output = run_job(script, np=2, arguments=[tmp_path])
    assert status == 130, output
    assert "the job was asked to end by signal 2" in last_lines(output)[0], output
    assert output.count("KeyboardInterrupt (script.py:") >= 2, output
    assert "Traceback" not in output


def test_nothing_is_lost(run_job, tmp_path):
    script = TRAINING.format(failure="raise ValueError(batch)")
    folder = tmp_path / "logs"
    _, shortened = run_job(script, np=2, options=["--output-dir", str(folder)])
    assert "_collectives/calls.py" not in shortened
    kept = (folder / "rank.0.txt").read_text()
    assert "Traceback" in kept
    assert "_collectives/calls.py" in kept
    assert f"--verbose shows whole tracebacks, {folder} has them" in shortened
    _, whole = run_job(script, np=2, options=["--verbose"])
    assert whole.count("Traceback") == 2
    assert "_collectives/calls.py" in whole
    assert "rank 1 failed first: ValueError: 5 (script.py:8)" in whole
    _, chosen = run_job(script, np=2, environment={"RONDE_TRACEBACKS": "full"})
    assert "_collectives/calls.py" in chosen


def test_a_traceback_that_a_rank_logs_is_shown_in_place(run_job):
    script = """
        import sys, traceback
        try:
            {}["a"]
        except KeyError:
            traceback.print_exc()
        print("goes on", file=sys.stderr)
    """
    status, output = run_job(script, np=1)
    assert status == 0
    assert output.splitlines()[0] == "[0] Traceback (most recent call last):"
    assert output.splitlines()[-1] == "[0] goes on"


@pytest.mark.parametrize(("choice", "hidden"), [("short", True), ("full", False)])
def test_python_hides_frames_of_ronde_under_any_launcher(tmp_path, choice, hidden):
    script = tmp_path / "alone.py"
    script.write_text("import ronde\nronde.init()\nronde.allreduce('text')\n")
    done = subprocess.run(
        [sys.executable, str(script)],
        env={"PATH": "", "RONDE_TRACEBACKS": choice},
        capture_output=True,
        text=True,
        timeout=480,
    )
    assert "alone.py" in done.stderr
    assert ("site-packages/ronde" not in done.stderr) == hidden, done.stderr


def test_python_hides_frames_of_ronde_where_init_fails(tmp_path):
    script = tmp_path / "alone.py"
    script.write_text("import ronde\nronde.init()\n")
    done = subprocess.run(
        [sys.executable, str(script)],
        env={"PATH": "", "RONDE_SIZE": "many"},
        capture_output=True,
        text=True,
        timeout=480,
    )
    assert "InvalidArgumentError" in done.stderr, done.stderr
    assert "alone.py" in done.stderr
    assert "_membership/joining.py" not in done.stderr, done.stderr


def test_a_missing_guard_of_the_main_script_is_named(tmp_path):
    script = tmp_path / "unguarded.py"
    script.write_text(
        "import multiprocessing, ronde\nronde.init()\n"
        "multiprocessing.set_start_method('spawn')\n"
        "child = multiprocessing.Process(target=print)\nchild.start()\nchild.join()\n"
    )
    command = [sys.executable, "-m", "ronde", "run", "-np", "1", "--", sys.executable, str(script)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=480)
    assert 'put what the script does under if __name__ == "__main__":' in done.stderr


def test_a_debugger_works_on_the_rank_that_gets_standard_input(tmp_path):
    script = tmp_path / "debugged.py"
    script.write_text(
        "import ronde\nronde.init()\nx = 41\nif ronde.rank() == 0:\n    breakpoint()\n"
        "ronde.barrier()\nprint('x is', x)\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "ronde", "run", "-np", "2", "--stdin", "0", str(script)],
        input="!x += 1\nc\n",
        capture_output=True,
        text=True,
        timeout=480,
    )
    assert done.returncode == 0, done.stderr
    assert "[0] (Pdb)" in done.stdout
    assert "x is 42" in done.stdout
    assert "[1] x is 41" in done.stdout
