"""Encryption between two hosts, by `ronde run`: what a sniffer sees, and what a relay can do."""

from __future__ import annotations

import re
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from clusters.two_hosts import run

DRIVER = Path(__file__).resolve().parents[1] / "chaos" / "driver"
RELAY_PORT = "29999"
TEXT = "A-SECRET-TENSOR."  # 16 bytes: 4 numbers
NAME = "name-of-a-tensor"
TOTAL = f"""
import numpy as np
import ronde
ronde.init()
mine = np.frombuffer(b"{TEXT}" * 65536, np.int32) * (ronde.rank() == ronde.size() - 1)
total = ronde.allreduce(mine, op=ronde.Sum, name="{NAME}")
assert total.tobytes() == b"{TEXT}" * 65536
print("summed", ronde.size())
"""
FOREVER = """
import numpy as np
import ronde
try:
    ronde.init()
    while True:
        total = ronde.allreduce(np.ones(1 << 18, np.float32), op=ronde.Sum)
        assert (total == 2).all(), "a wrong sum"
except ronde.Error as error:
    print(f"{type(error).__name__}: {error}")
"""


# Errors of data connections and of the control channel.
ALTERED = re.compile(
    r"is cut off: its connection "
    r"(between rank 0 on n1 and rank 1 on n2|with rank \d \(pid \d+ on n\d\)).* a record that "
    r"is not as it was sent: it was changed, replayed, dropped or moved on the way"
)
TWO_MODES = """
import os
os.environ["RONDE_ENCRYPTION"] = ("on", "off")[os.environ["RONDE_RANK"] == "1"]
import ronde
ronde.init()
"""


@contextmanager
def watching(hosts, host, program, *arguments):
    """Runs a program in a host's network until the end of the block; it has said "ready"."""
    prefix = ["nsenter", "-t", str(hosts.holders[host].pid), "-n", "--", sys.executable]
    with ExitStack() as stack:
        process = subprocess.Popen(
            [*prefix, str(program), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        stack.callback(process.wait)
        stack.callback(process.kill)
        if process.stdout.readline() != "ready\n":
            pytest.skip("this machine cannot do that")
        yield process


def sniffed(hosts, folder, *options, np="2"):
    """The texts that a sniffer sees while a job sums a tensor."""
    sniffer = Path(__file__).with_name("sniffer.py")
    with watching(hosts, 1, sniffer, "link0", TEXT, NAME) as process:
        status, output, errors = run(hosts, folder, TOTAL, *options, np=np)
        assert status == 0, errors
        assert output.count(f"summed {np}") == int(np)
        packets, *seen = process.communicate()[0].split()
    assert int(packets) > 20
    return set(seen)


def test_a_sniffer_sees_tensors_and_names_without_encryption(hosts, tmp_path):
    assert sniffed(hosts, tmp_path) == {TEXT, NAME}


@pytest.mark.parametrize("np", ["2", "4"])
def test_a_sniffer_sees_neither_tensors_nor_names_of_an_encrypted_job(hosts, tmp_path, np):
    assert sniffed(hosts, tmp_path, "--encryption", "on", np=np) == set()


@pytest.mark.parametrize("how", ["flip", "drop", "replay", "swap", "cut"])
@pytest.mark.parametrize("after", [1000, 3_000_000], ids=["early", "in the data"])
def test_what_a_relay_does_to_records_ends_the_job_and_names_both_ends(hosts, tmp_path, how, after):
    relay = DRIVER / "relay.py"
    with watching(hosts, 1, relay, RELAY_PORT, how, str(after)) as process:
        _, output, errors = run(hosts, tmp_path, FOREVER, "--encryption", "on")
        assert process.stdout.readline() == "spoiled\n", errors
    ends = re.findall(r"\[(\d)\] RankFailure: rank \d \(pid \d+ on n\d\) (.*)", output)
    assert sorted(rank for rank, _ in ends) == ["0", "1"], output + errors
    if how != "cut":
        assert any(ALTERED.search(why) for _, why in ends), output


def test_without_encryption_a_flipped_bit_is_a_wrong_sum(hosts, tmp_path):
    with watching(hosts, 1, DRIVER / "relay.py", RELAY_PORT, "flip", "3000000"):
        status, _, errors = run(hosts, tmp_path, FOREVER)
    assert status != 0
    assert "AssertionError: a wrong sum" in errors


def test_two_modes_end_both_ranks_with_an_error_that_names_them(hosts, tmp_path):
    status, _, errors = run(hosts, tmp_path, TWO_MODES)
    assert status != 0
    said = (
        "MismatchError: rank 0 on n1 has RONDE_ENCRYPTION=on, but rank 1 on n2 has "
        "RONDE_ENCRYPTION=off; set the same value (off, on or required) on all ranks"
    )
    for rank in (0, 1):
        assert any(line.startswith(f"[{rank}]") and said in line for line in errors.splitlines())


def test_required_refuses_gloo_between_hosts_and_on_warns_of_it(hosts, tmp_path):
    gloo = ("--backend", "gloo", "--network-interface", "link0")
    status, _, errors = run(hosts, tmp_path, TOTAL, "--encryption", "required", *gloo)
    if "not built" in errors:
        pytest.skip("this build has no Gloo")
    assert status != 0
    assert (
        "gloo does not encrypt what it sends between hosts, which RONDE_ENCRYPTION=required asks "
        "for; use RONDE_BACKEND=auto or tcp, or allow it by RONDE_ENCRYPTION=on"
    ) in errors
    status, output, errors = run(hosts, tmp_path, TOTAL, "--encryption", "on", *gloo)
    assert (status, output.count("summed 2")) == (0, 2), errors
    assert errors.count("gloo does not encrypt what it sends between hosts") == 1
