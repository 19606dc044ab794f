"""RONDE_DETERMINISTIC=1: the same bits whatever the order, fusion, data plane and algorithm."""

import pytest

SCRIPT = """
import hashlib, random, sys
import numpy as np
import ronde

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
handles = {name: ronde.allreduce_async(tensors[name], name, op=ronde.Average) for name in order}
digest = hashlib.sha256()
for name in sorted(handles):
    digest.update(handles[name].wait().tobytes())
digests = ronde.allgather_object(digest.hexdigest())
assert len(set(digests)) == 1, digests
if ronde.rank() == 0:
    print("digest=" + digests[0], flush=True)
"""
SCHEDULES = [
    {"RONDE_BACKEND": "shm"},
    {"RONDE_BACKEND": "shm", "RONDE_FUSION_THRESHOLD": "0"},
    {"RONDE_BACKEND": "shm", "RONDE_ALGORITHM": "ring"},
    {"RONDE_BACKEND": "tcp", "RONDE_FUSION_THRESHOLD": "64K"},
    {"RONDE_BACKEND": "tcp", "RONDE_ALGORITHM": "halving_doubling"},
    {"RONDE_BACKEND": "gloo", "RONDE_ALGORITHM": "native"},
]


@pytest.mark.parametrize("np", [3])
def test_deterministic_sums_have_the_same_bits_on_every_schedule(run_job, np):
    digests = {}
    for number, schedule in enumerate(SCHEDULES):
        environment = {"RONDE_DETERMINISTIC": "1", **schedule}
        status, output = run_job(SCRIPT, np, [number], environment)
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
