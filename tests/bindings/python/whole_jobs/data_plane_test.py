"""Which data plane a job gets when the best cannot be had, and settings that ranks must share."""

import sys

import jobs
import pytest

SCRIPT = """
import numpy as np
import ronde
ronde.init()
for count in (1, 300_000):
    assert ronde.allreduce(np.ones(count, np.float32), op=ronde.Sum)[-1] == ronde.size()
print("fine", flush=True)
"""
LITTLE = "1024"  # KiB: less than the data plane wants, more than the control channel does


def run_with_little_memory(tmp_path, environment):
    """Three ranks that may not make files, shared memory included, over LITTLE."""
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    command = ["bash", "-c", f'ulimit -f {LITTLE}; exec "$@"', "-", sys.executable, str(script)]
    return jobs.finish(jobs.launch(command, 3, environment))


def test_without_shared_memory_data_goes_over_tcp_with_one_warning(tmp_path):
    status, output = run_with_little_memory(tmp_path, {})
    assert status == 0, output
    assert output.count("fine") == 3
    assert output.count("data goes over tcp") == 1, output
    assert "more than a file may have here (1048576, ulimit -f)" in output


def test_shared_memory_that_was_asked_for_has_no_substitute(tmp_path):
    status, output = run_with_little_memory(tmp_path, {"RONDE_BACKEND": "shm"})
    assert status != 0
    assert "shared memory: " in output
    assert "(1048576, ulimit -f)" in output, output


@pytest.mark.parametrize(
    ("variable", "value", "shown"),
    [
        ("RONDE_FUSION_THRESHOLD", "1M", "1048576"),
        ("RONDE_PARTITION_BYTES", "1M", "1048576"),
        ("RONDE_RECONNECT_SECONDS", "2.5", "2.5"),
    ],
)
def test_settings_that_differ_between_ranks_are_an_error_on_all(run_job, variable, value, shown):
    status, output = run_job(
        f"""
        import os
        import ronde
        if os.environ["RONDE_RANK"] == "1":
            os.environ["{variable}"] = "{value}"
        try:
            ronde.init()
        except ronde.MismatchError as error:
            assert "rank 1 has \\"{shown}\\"" in str(error), error
            print("refused", flush=True)
        """,
        2,
    )
    assert status == 0, output
    assert output.count("refused") == 2, output


@pytest.mark.parametrize("np", [1, 2])
def test_a_backend_for_gpus_that_was_asked_for_has_no_substitute(tmp_path, np):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    options = ["--backend", "nccl"]
    hidden = {"CUDA_VISIBLE_DEVICES": ""}
    job = jobs.launch([sys.executable, str(script)], np, hidden, options)
    status, output = jobs.finish(job)
    assert status != 0
    assert "fine" not in output
    assert "UnavailableError: rank 0: backend nccl: " in output, output
    assert "asks for it; auto takes the best that is there" in output, output
