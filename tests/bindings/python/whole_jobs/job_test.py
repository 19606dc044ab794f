"""Whole jobs: signals, deaths, forks, bad settings, scripts as users write them."""

import json
import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import jobs
import pytest

ROOT = Path(__file__).resolve().parents[4]


def test_a_script_without_a_launcher_is_a_job_of_one(tmp_path):
    script = tmp_path / "alone.py"
    script.write_text(
        "import numpy as np, ronde; ronde.init()\n"
        "print(ronde.rank(), ronde.size(), ronde.allreduce(np.ones(2)).tolist())"
    )
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("RONDE_", "OMPI_", "PMI"))}
    result = subprocess.run(
        [sys.executable, script], env=clean, capture_output=True, text=True, timeout=480, check=True
    )
    assert result.stdout.split("\n")[0] == "0 1 [1.0, 1.0]"


def test_importing_ronde_imports_no_framework():
    code = "import sys, ronde; print([m for m in ('torch', 'tensorflow') if m in sys.modules])"
    output = subprocess.check_output([sys.executable, "-c", code], text=True, timeout=480)
    assert output.strip() == "[]"


def test_importing_ronde_torch_imports_no_more_of_torch():
    code = """
        import sys, torch
        before = set(sys.modules)
        import ronde.torch
        print([name for name in set(sys.modules) - before if name.startswith("torch")])
    """
    output = subprocess.check_output(
        [sys.executable, "-c", textwrap.dedent(code)], text=True, timeout=480
    )
    assert output.strip() == "[]"


@pytest.mark.parametrize("raised", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_reaches_the_script_while_it_waits(run_job, raised):
    status, output = run_job(
        """
        import os, signal, sys, threading, time
        import numpy as np
        import ronde

        class Stop(Exception):
            pass

        def handler(number, frame):
            raise Stop

        number = int(sys.argv[1])
        ronde.init()
        if ronde.rank() == 0:
            signal.signal(number, handler)
            sent = []
            def send():
                time.sleep(0.5)
                sent.append(time.monotonic())
                os.kill(os.getpid(), number)
            threading.Thread(target=send).start()
            try:
                ronde.allreduce(np.ones(2), "late")
            except Stop:
                print("stopped", flush=True)
            # The operation goes on: rank 1 still gets its answer, and so does the job.
            ronde.send(np.ones(1), 1)
        else:
            ronde.recv(np.ones(1), 0)
            ronde.allreduce(np.ones(2), "late")
        assert ronde.allreduce(np.ones(1), op=ronde.Sum)[0] == 2
        print("went on", flush=True)
        """,
        arguments=[int(raised)],
    )
    assert status == 0, output
    assert output.count("stopped") == 1
    assert output.count("went on") == 2


@pytest.mark.parametrize("backend", ["shm", "tcp", "gloo"])
def test_ctrl_c_reaches_a_script_that_a_frozen_peer_holds_up_in_mid_operation(run_job, backend):
    """The peer stops for good while both ranks do nothing but add; the other must get out."""
    status, output = run_job(
        """
        import os, signal, threading, time
        import numpy as np
        import ronde

        ronde.init()
        pids = ronde.allgather_object(os.getpid())
        if ronde.rank() == 0:
            def freeze_then_interrupt():
                time.sleep(0.3)
                os.kill(pids[1], signal.SIGSTOP)
                time.sleep(0.3)
                os.kill(pids[0], signal.SIGINT)
            threading.Thread(target=freeze_then_interrupt).start()
        try:
            while True:
                ronde.allreduce(np.ones(50000), "x")
        except KeyboardInterrupt:
            print("got out", flush=True)
            os.kill(pids[1], signal.SIGKILL)
            os._exit(0)
        """,
        options=["--backend", backend],
    )
    assert "got out" in output, output
    assert status == 137, output  # the frozen rank was killed


def test_the_exception_that_ended_a_rank_is_told_to_the_others(run_job):
    status, output = run_job(
        """
        import numpy, ronde
        ronde.init()
        if ronde.rank() == 1:
            raise ValueError("no data in shard 7")
        try:
            ronde.allreduce(numpy.ones(3, "float32"), name="w")
        except ronde.RankFailure as error:
            print("told:", error)
        """
    )
    assert status == 1, output
    told = re.search(r"told: rank 1 has left the job: (.*)", output)
    assert told, output
    assert re.match(r"ValueError: no data in shard 7 \(.*script.py:5\) \(pid ", told[1]), output


def test_a_killed_rank_is_named_on_the_others(run_job):
    status, output = run_job(
        """
        import os, signal
        import numpy as np
        import ronde

        ronde.init()
        pids = ronde.allgather_object(os.getpid())
        if ronde.rank() == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        try:
            while True:
                ronde.allreduce(np.ones(4), "x")
        except ronde.RankFailure as error:
            assert (error.rank, error.pid) == (1, pids[1]), (error.rank, error.pid)
            assert "1" in str(error)
            print("named", flush=True)
        """,
        np=3,
    )
    assert status != 0
    assert output.count("] named\n") <= 2
    assert "Traceback" not in output, output


def test_an_exception_on_one_rank_ends_the_job(run_job):
    status, output = run_job(
        """
        import numpy as np
        import ronde

        ronde.init()
        pending = ronde.allreduce_async(np.ones(4), "never")
        if ronde.rank() == 1:
            raise ZeroDivisionError("planted")
        ronde.allreduce(np.ones(4), "also never")
        """,
    )
    assert status != 0
    assert "planted" in output


def test_init_can_take_some_of_the_launched_ranks(run_job):
    status, output = run_job(
        """
        import os
        import numpy as np
        import ronde

        launched = ronde._core.launched_job()[0]
        if launched == 1:
            try:
                ronde.init(comm=[0, 2])
            except ronde.InvalidArgumentError:
                raise SystemExit
        ronde.init(comm=[0, 2])
        assert (ronde.rank(), ronde.size()) == (launched // 2, 2)
        assert ronde.allreduce(np.ones(1), op=ronde.Sum)[0] == 2
        """,
        np=3,
    )
    assert status == 0, output


def test_a_forked_child_gets_an_error_and_the_parent_goes_on(run_job):
    status, output = run_job(
        """
        import os, sys
        import numpy as np
        import ronde

        ronde.init()
        child = os.fork()
        if child == 0:
            try:
                ronde.allreduce(np.ones(1))
            except ronde.NotInitializedError as error:
                os._exit(0 if "fork" in str(error) else 1)
            os._exit(2)
        assert os.waitpid(child, 0)[1] == 0
        assert ronde.allreduce(np.ones(1), op=ronde.Sum)[0] == ronde.size()
        """
    )
    assert status == 0, output


def test_data_loader_workers_do_not_disturb_the_job(run_job):
    status, output = run_job(
        """
        import torch
        import ronde.torch as hvd

        hvd.init()
        loader = torch.utils.data.DataLoader(list(range(16)), batch_size=4, num_workers=2)
        for batch in loader:
            assert torch.equal(hvd.allreduce(batch, op=hvd.Sum), batch * hvd.size())
        """
    )
    assert status == 0, output


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [("RONDE_SPIN_US", "soon", "whole us"), ("RONDE_BACKEND", "pigeon", "shm")],
)
def test_a_bad_setting_is_named_with_what_is_allowed(name, value, allowed):
    result = subprocess.run(
        [sys.executable, "-c", "import ronde; ronde.init()"],
        env={**os.environ, name: value},
        capture_output=True,
        text=True,
        timeout=480,
        check=False,
    )
    assert result.returncode == 1
    last = result.stderr.strip().splitlines()[-1]
    assert last.startswith("ronde.InvalidArgumentError")
    assert name in last
    assert value in last
    assert allowed in last


def test_init_says_which_ranks_did_not_come():
    result = subprocess.run(
        [sys.executable, "-c", "import ronde; ronde.init()"],
        env={
            **os.environ,
            "RONDE_RANK": "0",
            "RONDE_SIZE": "3",
            "RONDE_JOB_ID": f"lonely-{os.getpid()}",
            "RONDE_START_TIMEOUT_MS": "500",
        },
        capture_output=True,
        text=True,
        timeout=480,
        check=False,
    )
    assert result.returncode == 1
    assert "TimeoutError" in result.stderr
    assert "1" in result.stderr.splitlines()[-1]
    assert "2" in result.stderr.splitlines()[-1]


def test_a_timeline_of_every_rank_is_merged(run_job, tmp_path):
    trace = tmp_path / "trace.json"
    status, output = run_job(
        """
        import numpy as np
        import ronde

        ronde.init()
        for step in range(3):
            ronde.allreduce(np.ones(8), "weights")
        """,
        options=["--timeline", str(trace)],
    )
    assert status == 0, output
    events = json.loads(trace.read_text())
    events = events["traceEvents"] if isinstance(events, dict) else events
    assert "weights" in json.dumps(events)


def test_steps_and_marks_of_training_are_in_the_timeline(run_job, tmp_path):
    trace = tmp_path / "trace.json"
    status, output = run_job(
        """
        import ronde
        import ronde.torch as hvd
        import torch

        hvd.init()
        model = torch.nn.Linear(4, 2)
        optimizer = hvd.DistributedOptimizer(
            torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters()
        )
        for step in range(3):
            optimizer.zero_grad()
            with ronde.mark_span("forward"):
                loss = model(torch.ones(2, 4)).sum()
            loss.backward()
            optimizer.step()
        ronde.mark("done")
        ronde.mark_step()
        """,
        options=["--timeline", str(trace)],
    )
    assert status == 0, output
    for rank in range(2):
        events = json.loads((tmp_path / f"trace.rank{rank}.json").read_text())
        names = [event.get("name") for event in events]
        steps = [event["args"]["value"] for event in events if event.get("name") == "step"]
        assert steps == [1, 2, 3, 4]
        assert names.count("forward") == 3
        assert names.count("done") == 1


def test_a_timeline_can_be_started_and_stopped(run_job, tmp_path):
    trace = tmp_path / "late.json"
    status, output = run_job(
        """
        import sys
        import numpy as np
        import ronde.torch as hvd
        import torch

        hvd.init()
        hvd.start_timeline(sys.argv[1], mark_cycles=True)
        hvd.allreduce(torch.ones(3), name="seen")
        hvd.stop_timeline()
        hvd.allreduce(torch.ones(3), name="unseen")
        """,
        arguments=[trace],
    )
    assert status == 0, output
    written = sorted(tmp_path.glob("late*.json"))
    assert written
    for path in written:
        text = path.read_text()
        json.loads(text)
        assert "seen" in text
        assert "unseen" not in text


def test_ctrl_c_at_the_launcher_leaves_no_process():
    code = "import ronde, numpy; ronde.init(); print('up', flush=True)\nwhile True: ronde.barrier()"
    process = jobs.launch([sys.executable, "-c", code], 2)
    seen = ""
    while seen.count("up") < 2:
        line = process.stdout.readline()
        assert line, f"the job ended early: {seen}"
        seen += line
    process.send_signal(signal.SIGINT)
    jobs.finish(process, 30)
    assert process.returncode != 0
    # Every process of the job was in the launcher's session.
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline and _session_members(process.pid):
        time.sleep(0.05)
    assert _session_members(process.pid) == []


def _session_members(session):
    listing = subprocess.run(
        ["ps", "-s", str(session), "-o", "pid=,stat=,args="],
        capture_output=True, text=True, check=False,
    ).stdout.splitlines()  # fmt: skip
    return [line for line in listing if " Z" not in line]


@pytest.mark.slow
def test_the_digits_example_learns():
    command = [sys.executable, str(ROOT / "examples" / "train_digits.py"), "--target", "0.95"]
    status, output = jobs.finish(jobs.launch(command, 2))
    assert status == 0, output
    assert "test accuracy" in output


@pytest.mark.parametrize("options", [(), ("--min-np", "2")])
@pytest.mark.parametrize("joins", [False, True])
def test_a_script_that_joins_no_job_is_named_at_the_end(tmp_path, joins, options):
    script = tmp_path / "train.py"
    script.write_text("import ronde\nronde.init()\n" if joins else "print('alone')\n")
    job = jobs.launch([sys.executable, str(script)], 2, options=options)
    status, output = jobs.finish(job)
    assert status == 0, output
    said = "no rank has joined the job: 2 processes ran train.py, each for itself; the script must"
    assert (said in output) is not joins, output
