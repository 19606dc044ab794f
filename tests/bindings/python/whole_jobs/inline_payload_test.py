"""Small operations between hosts carry their data with the agreement: the same bits, or errors."""

import functools
import os
import socket
import subprocess
import sys

import pytest
from slow_link import LIMIT_S, enter_host, write_secret

SUMS = """
import hashlib
import numpy as np
import ronde

ronde.init()
rank, size = ronde.rank(), ronde.size()
digest = hashlib.sha256()
types = ["u1", "i1", "i2", "i4", "i8", "f2", "f4", "f8", "?"]
ops = [ronde.Sum, ronde.Average, ronde.Min, ronde.Max, ronde.Product]
for step in range(3):
    for dtype in types:
        data = (np.sin(np.arange(5) + 7 * rank + step) * 9 + rank / 7).astype(dtype)
        for number, op in enumerate(ops):
            out = ronde.allreduce(data, op=op, name=f"{dtype}.{number}")
            digest.update(out.tobytes())
        root = step % size
        out = ronde.broadcast(data, root, name=f"{dtype}.{root}")
        digest.update(out.tobytes())
        scaled = ronde.allreduce(data, op=ronde.Sum, prescale_factor=0.5, postscale_factor=3.0)
        digest.update(scaled.tobytes())
    pair = [np.full(3, rank + step, "f4"), np.full(2, rank - step, "i8")]
    for out in ronde.grouped_allreduce(pair, op=ronde.Sum, name="pair"):
        digest.update(out.tobytes())
    handles = [
        ronde.allreduce_async(np.full(4, rank + i, "f4"), op=ronde.Sum, name=f"many.{i}")
        for i in range(100)
    ]
    for handle in handles:
        digest.update(ronde.synchronize(handle).tobytes())
assert len(set(ronde.allgather_object(digest.hexdigest()))) == 1
print("digest=" + digest.hexdigest(), flush=True)
"""
ERRORS = """
import numpy as np
import ronde

ronde.init()
rank, size = ronde.rank(), ronde.size()
one = np.ones(1, "f4")
for step in range(3):
    assert ronde.allreduce(one, op=ronde.Sum, name="x")[0] == size
    shape = 2 if rank == step % size else 1
    try:
        ronde.allreduce(np.ones(shape, "f4"), op=ronde.Sum, name="x")
        raise SystemExit("ranks differ")
    except ronde.MismatchError:
        pass
for step in range(rank):
    assert ronde.allreduce(one, op=ronde.Sum, name="x")[0] == size - step - 1
ronde.join()
assert ronde.allreduce(one, op=ronde.Sum, name="x")[0] == size
if rank == size - 1:
    raise SystemExit(3)
try:
    while True:
        ronde.allreduce(one, op=ronde.Sum, name="x")
except ronde.RankFailure as error:
    print(error)
"""


def run_hosts(script, hosts, folder, **settings):
    """The status, output and errors of `hosts` ranks, each on a pretended host of its own."""
    (folder / "script.py").write_text(script)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    common = {
        "RONDE_SIZE": str(hosts),
        "RONDE_JOB_ID": f"inline-{os.getpid()}-{port}",
        "RONDE_RENDEZVOUS": f"127.0.0.1:{port}",
        "RONDE_NETWORK_INTERFACE": "127.0.0.1",
        "RONDE_SECRET_FILE": write_secret(folder / "secret"),
        "OMP_NUM_THREADS": "1",
        **settings,
    }
    ranks = []
    try:
        for rank in range(hosts):
            ranks.append(
                subprocess.Popen(
                    [sys.executable, folder / "script.py"],
                    env={**os.environ, **common, "RONDE_RANK": str(rank)},
                    preexec_fn=functools.partial(enter_host, rank),
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                )
            )
        told = [rank.communicate(timeout=LIMIT_S) for rank in ranks]
    except (OSError, subprocess.SubprocessError) as error:
        if ranks:
            raise
        pytest.skip(f"no namespaces here: {error}")
    finally:
        for rank in ranks:
            rank.kill()
            rank.wait()
    return [(rank.returncode, *texts) for rank, texts in zip(ranks, told)]


@pytest.mark.parametrize("hosts", [2, 3, 8])
def test_results_have_the_bits_of_operations_that_move_their_data(hosts, tmp_path):
    digests = set()
    for limit in ("0", "1K", "16K"):
        trace = tmp_path / f"trace.{limit}.json"
        told = run_hosts(
            SUMS,
            hosts,
            tmp_path,
            RONDE_DETERMINISTIC="1",
            RONDE_INLINE_PAYLOAD_BYTES=limit,
            RONDE_TIMELINE=str(trace),
        )
        assert [status for status, _, _ in told] == [0] * hosts, told
        digests.add(told[0][1])
        events = (tmp_path / f"trace.{limit}.rank0.json").read_text()
        assert ('"algorithm":"inline"' in events) == (limit != "0")
    assert len(digests) == 1, digests


@pytest.mark.parametrize("hosts", [2, 3])
def test_errors_and_deaths_are_those_of_operations_that_move_their_data(hosts, tmp_path):
    told = run_hosts(ERRORS, hosts, tmp_path)
    assert [status for status, _, _ in told] == [0] * (hosts - 1) + [3], told
    for _, output, _ in told[:-1]:
        assert f"rank {hosts - 1}" in output


def test_the_limit_must_be_the_same_on_all_ranks(tmp_path):
    script = "import ronde\nronde.init()\n"
    differ = (
        f"import os\nos.environ['RONDE_INLINE_PAYLOAD_BYTES'] = os.environ['RONDE_RANK']\n{script}"
    )
    for status, _, errors in run_hosts(differ, 2, tmp_path):
        assert status != 0
        assert 'RONDE_INLINE_PAYLOAD_BYTES: rank 0 has "0", rank 1 has "1"' in errors
