"""The table of horovodrun's flags and HOROVOD_ variables is whole, obeyed and in the guide."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

GUIDE = Path(__file__).resolve().parents[4] / "docs" / "migrating-from-horovod.md"

# The flags of Horovod 0.28.1's horovodrun, with values for those that take some.
FLAGS = {
    **dict.fromkeys(["-v", "--version", "-cb", "--check-build"]),  # these end the program
    "-np": "1",
    "--num-proc": "1",
    "--disable-cache": "",
    "--start-timeout": "30",
    "--network-interfaces": "lo",
    "--network-interface": "lo",
    "--output-filename": "out",
    "--verbose": "",
    "--config-file": os.devnull,
    "-p": "22",
    "--ssh-port": "22",
    "-i": os.devnull,
    "--ssh-identity-file": os.devnull,
    "--fusion-threshold-mb": "64",
    "--cycle-time-ms": "3.5",
    "--cache-capacity": "99",
    "--hierarchical-allreduce": "",
    "--no-hierarchical-allreduce": "",
    "--hierarchical-allgather": "",
    "--no-hierarchical-allgather": "",
    "--torus-allreduce": "",
    "--no-torus-allreduce": "",
    "--autotune": "",
    "--no-autotune": "",
    "--autotune-log-file": "log.csv",
    "--autotune-warmup-samples": "3",
    "--autotune-steps-per-sample": "10",
    "--autotune-bayes-opt-max-samples": "20",
    "--autotune-gaussian-process-noise": "0.8",
    "--timeline-filename": "",  # in the second test it would need a job that calls init()
    "--timeline-mark-cycles": "",
    "--no-timeline-mark-cycles": "",
    "--no-stall-check": "",
    "--stall-check": "",
    "--stall-check-warning-time-seconds": "60",
    "--stall-check-shutdown-time-seconds": "0",
    "--mpi-threads-disable": "",
    "--no-mpi-threads-disable": "",
    "--mpi-args": "--map-by",
    "--tcp": "",
    "--binding-args": "--rankfile",
    "--num-nccl-streams": "2",
    "--thread-affinity": "0",
    "--gloo-timeout-seconds": "30",
    "--log-level": "WARNING",
    "--log-with-timestamp": "",
    "--log-without-timestamp": "",
    "-prefix-timestamp": "",
    "--prefix-output-with-timestamp": "",
    "--log-hide-timestamp": "",
    "--no-log-hide-timestamp": "",
    "-H": "localhost:1",
    "--hosts": "localhost:1",
    "-hostfile": "hosts",
    "--hostfile": "hosts",
    "--gloo": "",
    "--mpi": "",
    "--jsrun": "",
}
ELASTIC_FLAGS = {
    "--min-np": "1",
    "--min-num-proc": "1",
    "--max-np": "1",
    "--max-num-proc": "1",
    "--slots-per-host": "1",
    "--elastic-timeout": "30",
    "--reset-limit": "1",
    "--blacklist-cooldown-range": "1 2",
    "--host-discovery-script": "",  # in place of -H
}

VARIABLE_NAMES = """
    ADASUM_MPI_CHUNK_SIZE ALLOW_MIXED_GPU_IMPL AUTOTUNE AUTOTUNE_BAYES_OPT_MAX_SAMPLES
    AUTOTUNE_GAUSSIAN_PROCESS_NOISE AUTOTUNE_LOG AUTOTUNE_STEPS_PER_SAMPLE
    AUTOTUNE_WARMUP_SAMPLES BATCH_D2D_MEMCOPIES BUILD_ARCH_FLAGS CACHE_CAPACITY CCL_CACHE
    CMAKE CONTROLLER CONTROLLER_DEFAULT CPU_OPERATIONS CPU_OPERATIONS_DEFAULT CROSS_RANK
    CROSS_SIZE CUDA_HOME CYCLE_TIME DEBUG DISABLE_GROUP_FUSION DISABLE_NVTX_RANGES
    DYNAMIC_PROCESS_SETS ELASTIC ELASTIC_TIMEOUT ENABLE_ASYNC_COMPLETION ENABLE_XLA_OPS
    FUSION_THRESHOLD GLOO_IFACE GLOO_RENDEZVOUS_ADDR GLOO_RENDEZVOUS_PORT GLOO_TIMEOUT_SECONDS
    GPU GPU_ALLGATHER GPU_ALLREDUCE GPU_ALLTOALL GPU_BROADCAST GPU_OPERATIONS
    GPU_REDUCESCATTER HIERARCHICAL_ALLGATHER HIERARCHICAL_ALLREDUCE HOSTNAME LOCAL_RANK
    LOCAL_SIZE LOCAL_VERSION LOG_HIDE_TIME LOG_LEVEL MPICXX_SHOW MPI_THREADS_DISABLE NCCL_HOME
    NCCL_INCLUDE NCCL_LIB NCCL_LINK NUM_NCCL_STREAMS NVTX_INCLUDE RANK ROCM_HOME SECRET_KEY
    SIZE SKIP_COMPILE SPARK_PYTHONPATH SPARK_START_TIMEOUT SPARK_USE_LOCAL_RANK_GPU_INDEX
    SPARK_WORK_DIR STALL_CHECK_DISABLE STALL_CHECK_TIME_SECONDS STALL_SHUTDOWN_TIME_SECONDS
    START_TIMEOUT THREAD_AFFINITY TIMELINE TIMELINE_MARK_CYCLES TORUS_ALLREDUCE WITHOUT_GLOO
    WITHOUT_MPI WITHOUT_MXNET WITHOUT_NVTX WITHOUT_PYTORCH WITHOUT_TENSORFLOW WITH_GLOO
    WITH_MPI WITH_MXNET WITH_NVTX WITH_PYTORCH WITH_TENSORFLOW
"""
VARIABLES = VARIABLE_NAMES.split()

# Words of its sources that are no variables: types, results, include guards, keys of its store.
NO_VARIABLES = (
    r"U?INT\d+|FLOAT\d+|BOOL|PROCESS_SET_ERROR_\w+|\w+_H_?|CCL|MPI|GLOO|GLOO_\w+_PREFIX"
    r"|GLOO_GET_RANK_AND_SIZE"
)


def table():
    """The flags and the variables of the table; a variable may end in a star."""
    text = subprocess.run(
        [sys.executable, "-m", "ronde", "doctor", "--horovod"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    rows = [line.split("|")[1:3] for line in text.splitlines()[2:]]
    names = [set(re.findall(r"`([^`]+)`", " ".join(column))) for column in zip(*rows, strict=True)]
    return text, *names


def is_known(variable, known):
    return any(
        variable == name or (name[-1] == "*" and variable.startswith(name[:-1])) for name in known
    )


def test_the_table_is_whole_and_in_the_guide():
    text, flags, variables = table()
    assert set(FLAGS) | set(ELASTIC_FLAGS) <= flags
    assert [name for name in VARIABLES if not is_known("HOROVOD_" + name, variables)] == []
    assert text in GUIDE.read_text(), "ronde doctor --horovod prints the table of the guide"


def test_the_lists_above_are_those_of_horovods_sources():
    folder = os.environ.get("RONDE_TEST_HOROVOD_SOURCE")
    if not folder:
        pytest.skip("RONDE_TEST_HOROVOD_SOURCE names no unpacked Horovod 0.28.1")
    launcher = (Path(folder) / "horovod/runner/launch.py").read_text()
    flags = set(re.findall(r"add_argument\('(-[\w-]+)'", launcher))
    flags |= set(re.findall(r"add_argument\('-[\w-]+', '(-[\w-]+)'", launcher))
    assert flags == set(FLAGS) | set(ELASTIC_FLAGS)
    found = set()
    for path in Path(folder).joinpath("horovod").rglob("*"):
        if path.suffix in {".py", ".h", ".cc", ".cu"}:
            found |= set(re.findall(r"HOROVOD_([A-Z0-9_]+)", path.read_text(errors="ignore")))
    found = {name for name in found if not re.fullmatch(NO_VARIABLES, name)}
    assert found <= set(VARIABLES)


def horovodrun(folder, flags, command):
    words = [word for flag, value in flags.items() for word in [flag, *value.split()]]
    start = "import sys; from ronde._command import horovodrun; horovodrun()"
    return subprocess.run(
        [sys.executable, "-c", start, *words, *command],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=480,
    )


@pytest.mark.parametrize("elastic", [False, True])
def test_no_flag_ends_the_program(tmp_path, elastic):
    flags = {flag: value for flag, value in FLAGS.items() if value is not None}
    for other in ["-hostfile", "--hostfile", "--timeline-filename"]:
        del flags[other]
    if elastic:
        script = tmp_path / "hosts.sh"
        script.write_text("#!/bin/sh\necho localhost:1\n")
        script.chmod(0o755)
        del flags["-H"], flags["--hosts"]
        flags |= {**ELASTIC_FLAGS, "--host-discovery-script": str(script)}
    done = horovodrun(tmp_path, flags, ["echo", "fine"])
    assert done.returncode == 0, done.stderr
    assert "[0] fine" in done.stdout
    replaced = re.findall(r"horovodrun: (--[\w-]+) has no effect: \w", done.stderr)
    assert len(replaced) == len(set(replaced)) > 20


def test_variables_without_effect_are_told_once(run_job):
    odd = {"HOROVOD_CYCLE_TIME": "5", "HOROVOD_CYCLE_TIM": "5", "HOROVOD_AUTOTUNE": "0"}
    status, output = run_job("import ronde; ronde.init()", np=2, environment=odd)
    assert status == 0, output
    assert output.count("HOROVOD_CYCLE_TIME has no effect: there are no cycles") == 1, output
    assert output.count("HOROVOD_CYCLE_TIM is no variable of Horovod") == 1, output
    assert "AUTOTUNE" not in output


def test_the_dynamic_timeline_waits_for_the_script(run_job, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    script = """
        import os, numpy as np, ronde
        ronde.init()
        ronde.allreduce(np.ones(1))
        if ronde.rank() == 0:
            print("before:", sorted(f for f in os.listdir() if "rank" in f or "DYN" in f))
        ronde.barrier()
        ronde.start_timeline("started.json")
        ronde.allreduce(np.ones(1))
        ronde.stop_timeline()
    """
    status, output = run_job(script, np=2, environment={"HOROVOD_TIMELINE": "DYNAMIC"})
    assert status == 0, output
    assert "before: []" in output
    assert (tmp_path / "started.json").exists()
    assert not list(tmp_path.glob("DYNAMIC*"))
