"""Connections between two hosts that heal, by `ronde run`: the network is cut in mid-allreduce."""

from __future__ import annotations

import re
import threading

import pytest
from driver.heal import break_network

from clusters.two_hosts import run

# Ends once all ranks have summed for some seconds after the first sum.
SUMS = """
import time
import numpy as np
import ronde
ronde.init()
rank, size = ronde.rank(), ronde.size()
began, over, sums = None, 0, 0
while not over:
    mine = np.arange(1 << 20, dtype=np.float32) % 1000 + rank
    total = ronde.allreduce(mine, op=ronde.Sum, name="sum")
    want = (np.arange(1 << 20, dtype=np.float32) % 1000) * size + size * (size - 1) // 2
    assert (total == want).all(), "a wrong sum"
    began, sums = began or time.monotonic(), sums + 1
    over = ronde.allreduce(np.array([time.monotonic() > began + 8]), op=ronde.Max, name="over")[0]
print("right", sums, flush=True)
"""
TENSOR_BYTES = 4 << 20
RELIABLE = ("--env", "RONDE_RECONNECT_SECONDS=30", "--backend", "tcp")


@pytest.mark.parametrize("encryption", ["off", "on"])
@pytest.mark.parametrize("how", ["both", "reset", "reset all"])
def test_sums_are_right_over_a_cut_of_some_seconds(hosts, tmp_path, how, encryption):
    broke = []

    def cut() -> None:
        hosts.wait_until_sent("link0", TENSOR_BYTES)
        broke.append(break_network(hosts, how))

    thread = threading.Thread(target=cut)
    thread.start()
    options = (*RELIABLE, "--encryption", encryption)
    status, output, errors = run(hosts, tmp_path, SUMS, *options)
    thread.join()
    if broke != [True]:
        pytest.skip("this machine cannot do that")
    assert status == 0, errors
    assert len(re.findall(r"right \d+", output)) == 2
    if how != "both":  # a cut may come while ranks agree, with no data under way
        what = "the connection" if how == "reset" else "the control connection"
        again = what + r" with rank \d .*; it works again after \d+\.\d\d s"
        assert re.search(again, errors), errors
