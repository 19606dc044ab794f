"""Priorities in real jobs: urgent work overtakes at the partition borders of large work."""

import json

import pytest

SCRIPT = """
import sys, time
import numpy as np
import ronde
from ronde import _core
from ronde._job import runtime
from ronde._collectives.calls import Call

def submit(array, name, priority):
    call = Call(name, ronde.global_process_set, 0, priority=priority)
    return _core.submit(runtime.runtime(), 0, 0, [array], [array], array, False, call)

ronde.init()
large = np.ones(int(sys.argv[1]) << 18, np.float32)
urgent = np.ones(1000, np.float32)
ends = {}
for attempt in range(3):  # the first allocates
    large[:] = urgent[:] = 1
    ronde.barrier()
    bulk = submit(large, "large", 0)
    while large[:: 1 << 16].max() == 1:
        time.sleep(0.0005)  # until it has written some results, and so is under way
    quick = submit(urgent, "urgent", 10)
    quick.wait(-1.0)
    overtook = not bulk.done()
    bulk.wait(-1.0)
    assert urgent[0] == urgent[-1] == ronde.size(), urgent
    assert large.min() == large.max() == ronde.size(), (large.min(), large.max())
print("overtook=" + str(int(overtook)), flush=True)
ronde.shutdown()
"""


@pytest.mark.parametrize("backend", ["shm", "tcp"])
def test_a_small_urgent_tensor_overtakes_one_of_256_mb(run_job, tmp_path, backend):
    trace = tmp_path / "trace.json"
    megabytes = 256 if backend == "shm" else 64
    status, output = run_job(
        SCRIPT,
        2,
        [megabytes],
        {"RONDE_BACKEND": backend, "RONDE_PARTITION_BYTES": "8M"},
        ["--timeline", str(trace)],
    )
    assert status == 0, output
    assert output.count("overtook=1") == 2, output
    events = json.loads(trace.read_text())
    events = events["traceEvents"] if isinstance(events, dict) else events
    partitions = {
        event["args"]["partition"] for event in events if "partition" in event.get("args", {})
    }
    assert partitions >= set(range(1, megabytes // 8 + 1))


def test_without_partitions_nothing_overtakes(run_job):
    """Otherwise the test above proves nothing."""
    status, output = run_job(SCRIPT, 2, [256], {"RONDE_PARTITION_BYTES": "0"})
    assert status == 0, output
    assert "overtook=1" not in output, output
