"""Ranks behind programs that close descriptors, as Python's subprocess does.

accelerate launch, conda run and users' own wrappers start ranks so.
"""

from __future__ import annotations

import os
import re
import stat
import subprocess
import sys
import textwrap

import jobs
import pytest
import ronde

WRAPPER = """
import subprocess, sys
sys.exit(subprocess.call(sys.argv[1:]))
"""


@pytest.fixture
def wrap(tmp_path):
    """wrap(script, np, ...): as run_job, but a shell and two wrappers are around each rank."""

    def run(script, np=2, options=(), arguments=(), environment=None):
        (tmp_path / "wrapper.py").write_text(WRAPPER)
        (tmp_path / "script.py").write_text(textwrap.dedent(script))
        wrapper = [sys.executable, str(tmp_path / "wrapper.py")]
        inner = [*wrapper, *wrapper, sys.executable, str(tmp_path / "script.py"), *arguments]
        command = ["bash", "-c", '"$@"; exit $?', "bash", *inner]
        return jobs.finish(jobs.launch(command, np, environment, options))

    return run


def test_a_wrapped_rank_joins_and_files_with_the_numbers_stay_open_and_unread(wrap):
    status, output = wrap(
        """
        import os, socket, tempfile

        number = int(os.environ["RONDE_SECRET_FD"])
        assert not os.path.exists(f"/proc/self/fd/{number}")
        os.dup2(0, number)  # nothing else may take it
        import numpy as np
        import ronde

        def check():
            ronde.init()
            print("sum", ronde.allreduce(np.ones(2), op=ronde.Sum).tolist(), flush=True)
            ronde.shutdown()

        check()
        reader, writer = os.pipe()
        ours, theirs = socket.socketpair()
        file = tempfile.TemporaryFile()
        os.write(writer, b"f" * 64)
        theirs.send(b"f" * 64)
        os.pwrite(file.fileno(), b"f" * 64, 0)
        for foreign in reader, ours.fileno(), file.fileno():
            os.dup2(foreign, number)
            check()
            assert os.get_inheritable(number)
            assert os.read(number, 99) == b"f" * 64
        """
    )
    assert status == 0, output
    assert output.count("sum [2.0, 2.0]") == 8, output


def test_a_wrapped_rank_without_the_variable_says_what_to_pass_on(wrap):
    status, output = wrap(
        """
        import os
        import ronde

        del os.environ["RONDE_DESCRIPTORS"]
        reader, writer = os.pipe()
        os.dup2(reader, int(os.environ["RONDE_SECRET_FD"]))
        try:
            ronde.init()
        except ronde.InvalidArgumentError as error:
            print("told:", error, flush=True)
        """
    )
    assert status == 0, output
    told = re.findall(r"told: .*RONDE_SECRET_FD=\d+ is no file.*RONDE_DESCRIPTORS.*", output)
    assert len(told) == 2, output


def test_a_rank_whose_environment_is_cleared_does_not_train_alone(wrap):
    script = """
        import os, subprocess, sys
        code = "import ronde; ronde.init(); print('alone', ronde.size(), flush=True)"
        for more in {}, {"RONDE_RANK": "0", "RONDE_SIZE": "1"}:
            done = subprocess.run([sys.executable, "-c", code], env=more, text=True, stderr=-1)
            if "started this process, but its environment has no RONDE_RANK" in done.stderr:
                print("told", flush=True)
        """
    status, output = wrap(script, environment={"PYTHONPATH": ""})
    assert status == 0, output
    assert output.count("told") == output.count("alone 1") == 2, output


NAMESPACES = ["-pf", "-pf --mount-proc", "-i", "-m", "-U", "-r", "-rpfim --mount-proc"]


@pytest.mark.parametrize("kinds", NAMESPACES)
def test_ranks_in_containers_of_their_own_train_and_tell_of_a_death(tmp_path, kinds):
    options = kinds.split()
    if subprocess.run(["unshare", *options, "true"], capture_output=True).returncode != 0:
        pytest.skip("no namespaces here")
    (tmp_path / "script.py").write_text(
        textwrap.dedent("""
        import os
        import pathlib
        import time
        import numpy as np
        import ronde

        ronde.init()
        total = ronde.allreduce(np.arange(300000, dtype=np.float32), op=ronde.Sum)
        assert (total == 3 * np.arange(300000)).all()
        print("alike", ronde.local_size(), flush=True)
        here = pathlib.Path(__file__).parent
        (here / f"done{ronde.rank()}").touch()
        if ronde.rank() == 1:
            while len(list(here.glob("done*"))) < 3:  # the others have their sums too
                time.sleep(0.01)
            os.kill(os.getpid(), 9)
            os._exit(9)  # the first process of a namespace survives its own signals
        try:
            ronde.allreduce(np.ones(4), "never")
        except ronde.RankFailure as error:
            print("told of", error.rank, flush=True)
            raise
        """)
    )
    command = ["unshare", *options, sys.executable, str(tmp_path / "script.py")]
    status, output = jobs.finish(jobs.launch(command, 3))
    assert status != 0, output
    assert output.count("alike 3") == 3, output
    assert output.count("told of 1") == 2, output


def test_a_wrapped_rank_tells_how_another_ended(wrap):
    status, output = wrap(
        """
        import os, time
        import numpy as np
        import ronde

        ronde.init()
        told = ""
        ronde.allreduce(np.ones(4), "first")
        if ronde.rank() == 1:
            os._exit(7)
        while "; pid " not in told:
            try:
                ronde.allreduce(np.ones(4), "later")
            except ronde.RankFailure as error:
                told = str(error)
                time.sleep(0.001)
        print("told:", told, flush=True)
        """
    )
    assert status == 7, output
    assert re.search(
        r"told: rank 1 .*; pid \d+ was run by pid \d+, which exited with status 7", output
    ), output


def test_a_wrapped_elastic_job_goes_on_from_the_copies_of_its_dead_workers(wrap, tmp_path):
    status, output = wrap(
        """
        import os, signal, sys
        from pathlib import Path
        import numpy as np
        import ronde
        import ronde.elastic

        mark = Path(sys.argv[1])
        ronde.init()
        state = ronde.elastic.ArrayState(weights=np.zeros(4), step=0)

        @ronde.elastic.run
        def train(state):
            print("from step", state.step, flush=True)
            while state.step < 20:
                state.weights += ronde.allreduce(np.ones(4), name="gradient")
                state.step += 1
                state.commit()
                if state.step == 10 and not (mark / f"killed{ronde.rank()}").exists():
                    (mark / f"killed{ronde.rank()}").touch()
                    os.kill(os.getpid(), signal.SIGKILL)

        train(state)
        print("ended", state.step, state.weights.tolist(), flush=True)
        """,
        options=["--min-np", "2"],
        arguments=[str(tmp_path)],
    )
    assert status == 0, output
    assert output.count("from step 10") >= 2, output
    assert output.count("ended 20 [20.0, 20.0, 20.0, 20.0]") == 2, output


def test_a_function_is_called_through_a_python_that_closes_descriptors(tmp_path):
    python = tmp_path / "python"
    python.write_text(
        f"#!{sys.executable}\nimport subprocess, sys\n"
        f"sys.exit(subprocess.call([{sys.executable!r}, *sys.argv[1:]]))\n"
    )
    python.chmod(python.stat().st_mode | stat.S_IXUSR)
    found = ronde.run(lambda: int(os.environ["RANK"]) * 10, np=2, executable=str(python))
    assert found == [0, 10]
