"""That throughput.py runs and counts; how fast the network is here is not judged."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from clusters.two_hosts import why_not

SCRIPT = Path(__file__).with_name("throughput.py")


def measured(*options: str) -> str:
    """What the script prints of one round with a tensor of 1 MB."""
    if reason := why_not():
        pytest.skip(reason)
    command = [sys.executable, str(SCRIPT), "--rounds", "1", "--megabytes", "1", *options]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=480).stdout


@pytest.mark.parametrize("encryption", ["off", "on"])
def test_a_rate_is_measured_in_turn_with_a_stream(encryption):
    said = measured("--rate", "410mbit", "--encryption", encryption)
    assert re.match(rf"410mbit, encryption {encryption}: [\d.]+ ms, stream [\d.]+ ms: ", said)
    for kind in ("allreduce", "stream"):
        times = re.search(rf"{kind}: (\d\.\d+) x S sent by a host", said)
        assert times is not None, said
        assert 1 <= float(times[1]) < 1.1
    calls = re.search(r"system calls a MB: ([\d.]+) \((sendmsg ([\d.]+), |perf cannot)", said)
    assert calls is not None, said
    if calls[3]:
        assert 0 < float(calls[3]) < float(calls[1])
