"""RONDE_DETERMINISTIC=1: same bits whatever order, fusion, pieces, data plane and algorithm."""

import pytest

SCRIPT = """
import hashlib, random, sys
import numpy as np
import ronde
from ronde import _core
from ronde._job import runtime
from ronde._collectives.calls import Call

ronde.init()
data = np.random.default_rng(ronde.rank())
tensors = {
    f"t{i}": (data.standard_normal(size) * 10.0 ** data.integers(-3, 4, size)).astype(dtype)
    for i, (size, dtype) in enumerate(
        [(1, "f4"), (7, "f2"), (1000, "f4"), (4099, "f8"), (70_001, "f4"), (300_007, "f2")] * 2
    )
}
order = list(tensors)
random.Random(f"{sys.argv[1]}/{ronde.rank()}").shuffle(order)
levels = 3 if "priorities" in sys.argv else 1
priority = {name: random.Random(name).randrange(levels) for name in order}


def submit(name):
    out = np.empty_like(tensors[name])
    operation = _core.submit(
        runtime.runtime(), 0, 0, [tensors[name]], [out], (tensors[name], out), False,
        Call(name, ronde.global_process_set, 1, priority=priority[name]),
    )
    return operation, out


handles = {name: submit(name) for name in order}
digest = hashlib.sha256()
for name in sorted(handles):
    operation, out = handles[name]
    operation.wait(-1.0)
    digest.update(out.tobytes())
digests = ronde.allgather_object(digest.hexdigest())
assert len(set(digests)) == 1, digests
if ronde.rank() == 0:
    print("digest=" + digests[0], flush=True)
"""
SCHEDULES = [
    {"RONDE_BACKEND": "shm"},
    {"RONDE_BACKEND": "shm", "RONDE_FUSION_THRESHOLD": "0"},
    {"RONDE_BACKEND": "shm", "RONDE_ALGORITHM": "ring"},
    {"RONDE_BACKEND": "shm", "RONDE_PARTITION_BYTES": "64K", "priorities": "1"},
    {"RONDE_BACKEND": "shm", "RONDE_PARTITION_BYTES": "0", "priorities": "1"},
    {"RONDE_BACKEND": "tcp", "RONDE_FUSION_THRESHOLD": "64K"},
    {"RONDE_BACKEND": "tcp", "RONDE_PARTITION_BYTES": "100000", "RONDE_FUSION_THRESHOLD": "0"},
    {"RONDE_BACKEND": "tcp", "RONDE_ALGORITHM": "halving_doubling"},
    {"RONDE_BACKEND": "gloo", "RONDE_ALGORITHM": "native"},
]


@pytest.mark.parametrize("np", [3])
def test_deterministic_sums_have_the_same_bits_on_every_schedule(run_job, np):
    digests = {}
    for number, schedule in enumerate(SCHEDULES):
        environment = {"RONDE_DETERMINISTIC": "1", **schedule}
        arguments = [number, "priorities" if environment.pop("priorities", "") else ""]
        status, output = run_job(SCRIPT, np, arguments, environment)
        assert status == 0, f"{schedule}:\n{output}"
        digests[str(schedule)] = output.split("digest=")[1].split()[0]
    assert len(set(digests.values())) == 1, digests


def test_the_order_of_addition_shows_in_the_bits(run_job):
    """Otherwise the test above proves nothing: by default ring and shared memory differ."""
    digests = set()
    for schedule in ({"RONDE_BACKEND": "shm"}, {"RONDE_BACKEND": "tcp", "RONDE_ALGORITHM": "ring"}):
        status, output = run_job(SCRIPT, 3, [0], schedule)
        assert status == 0, output
        digests.add(output.split("digest=")[1].split()[0])
    assert len(digests) == 2
