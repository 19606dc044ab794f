"""Two hosts with two network interfaces each, by `ronde run`: both carry data, and one may die."""

from __future__ import annotations

import re
import threading
from contextlib import contextmanager
from pathlib import Path

import pytest

from clusters.two_hosts import NamedHosts, run, why_not

INTERFACES = ("link0", "link1")
BOTH = ",".join(INTERFACES)
A_TENTH = 1_600_000  # bytes of the tensor
SUMS = """
import os, time
import numpy as np
import ronde
ronde.init()
mine = np.arange(4_000_003, dtype=np.float32) % 1000 + ronde.rank()
right = 2 * (np.arange(4_000_003, dtype=np.float32) % 1000) + 1
end = time.monotonic() + float(os.environ.get("SECONDS_TO_SUM", "0"))
print("begins", flush=True)
while True:
    assert (ronde.allreduce(mine, op=ronde.Sum, name="sum") == right).all(), "a wrong sum"
    done = np.array([time.monotonic() > end], np.int32)
    if ronde.allreduce(done, op=ronde.Sum, name="done")[0]:
        break
print("summed")
"""


@pytest.fixture
def hosts(tmp_path: Path):
    """Two hosts with two links of 300 Mbit/s."""
    if reason := why_not():
        pytest.skip(reason)
    with NamedHosts(tmp_path, interfaces=len(INTERFACES)) as both:
        for interface in INTERFACES:  # else the first is as fast as the processor
            shape = ("root", "tbf", "rate", "300mbit", "burst", "64kb", "latency", "100ms")
            for host in range(2):
                if not both.run(host, "tc", "qdisc", "add", "dev", interface, *shape):
                    pytest.skip("tc cannot slow a link down here")
        yield both


@contextmanager
def interface_dying(hosts: NamedHosts, interface: str):
    """Takes this interface of n2 down once it carries data."""

    def take_down() -> None:
        hosts.wait_until_sent(interface, A_TENTH)
        hosts.run(1, "ip", "link", "set", interface, "down")

    killer = threading.Thread(target=take_down)
    killer.start()
    try:
        yield
    finally:
        killer.join()


def test_data_goes_over_both_interfaces(hosts, tmp_path):
    status, output, errors = run(hosts, tmp_path, SUMS, "--network-interface", BOTH)
    assert (status, output.count("summed")) == (0, 2), errors
    for interface in INTERFACES:
        assert hosts.sent(interface) > A_TENTH


@pytest.mark.parametrize(("interface", "encryption"), [(0, "off"), (1, "off"), (0, "on")])
def test_an_interface_that_dies_is_left_out_with_a_warning(hosts, tmp_path, interface, encryption):
    options = ("--network-interface", BOTH, "--encryption", encryption)
    settings = {"RONDE_RECONNECT_SECONDS": "30", "SECONDS_TO_SUM": "4"}
    with interface_dying(hosts, INTERFACES[interface]):
        status, output, errors = run(hosts, tmp_path, SUMS, *options, **settings)
    assert (status, output.count("summed")) == (0, 2), errors
    assert re.search(
        r"the connection with rank \d \(pid \d+ on n\d\) over "
        rf"link{interface} \(10.77.{interface}.\d\) .*: "
        r"the network interface is left out, and the others carry its share",
        errors,
    ), errors


def test_without_healing_a_dead_interface_ends_the_job_by_its_name(hosts, tmp_path):
    settings = {"RONDE_LINK_TIMEOUT_MS": "1500", "SECONDS_TO_SUM": "60"}
    with interface_dying(hosts, "link1"):
        status, _, errors = run(hosts, tmp_path, SUMS, "--network-interface", BOTH, **settings)
    assert status != 0
    assert "over link1 (10.77.1." in errors, errors


def test_a_list_that_cannot_be_is_an_error_that_names_what_is_wrong(hosts, tmp_path):
    settings = {"RONDE_NETWORK_INTERFACE": "link0,10.77.0.1", "RONDE_START_TIMEOUT_MS": "3000"}
    status, _, errors = run(hosts, tmp_path, SUMS, **settings)
    assert status != 0
    assert "10.77.0.1 is listed twice, as link0" in errors, errors


def test_hosts_that_list_different_numbers_use_the_first_ones_with_a_warning(hosts, tmp_path):
    script = f"""
import os
os.environ["RONDE_NETWORK_INTERFACE"] = ("{BOTH}", "link0")[os.environ["RONDE_RANK"] == "1"]
{SUMS}"""
    status, output, errors = run(hosts, tmp_path, script)
    assert (status, output.count("summed")) == (0, 2), errors
    assert (
        "n2 lists 1 network interface in RONDE_NETWORK_INTERFACE and n1 lists 2: data uses the "
        "first 1 of each"
    ) in errors
    assert hosts.sent("link1") < 100_000
