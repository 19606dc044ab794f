"""An error that one of two hosts causes is raised there, with its class, the host and a remedy."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import ronde
from slow_link import HOSTS, PORT, start_ranks, two_hosts, write_secret

VAIN_MS = "4000"  # rank 0 waits so long for a rank that does not come
MEETING_MS = "60000"  # for ranks that meet, on a busy machine too
SCRIPT = """
import time
import numpy as np
import ronde
try:
    ronde.init()
    print(ronde.allreduce(np.ones(1), op=ronde.Sum), int(time.time()))
except ronde.Error as error:
    print(f"{type(error).__name__}: {error}")
"""


@pytest.fixture(scope="module")
def hosts():
    with two_hosts() as hosts:
        yield hosts


def outputs(hosts, folder, each, **settings):
    """The output of both ranks, with the setting of each."""
    settings = {"RONDE_START_TIMEOUT_MS": MEETING_MS, **settings}
    settings.setdefault("RONDE_SECRET_FILE", write_secret(folder / "secret"))
    settings.setdefault("RONDE_NETWORK_INTERFACE", "link0")
    told = start_ranks(hosts, SCRIPT, folder, settings, each)
    assert [status for status, _, _ in told] == [0, 0], told
    return [output.strip() for _, output, _ in told]


def said_by_rank_1(hosts, folder, **settings):
    """The output of rank 1, with these settings of its own. Rank 0 waits for it in vain."""
    limit = {"RONDE_START_TIMEOUT_MS": settings.pop("RONDE_START_TIMEOUT_MS", VAIN_MS)}
    first, second = outputs(hosts, folder, ({}, settings), **limit)
    assert first.startswith("TimeoutError: 1 of 2 ranks did not come in time: rank 1"), first
    assert f"on node1 the rendezvous is {HOSTS[0]}:{PORT}: it must be an address of" in first
    return second


def test_a_name_that_does_not_resolve_is_told_with_its_host(hosts, tmp_path):
    said = said_by_rank_1(hosts, tmp_path, RONDE_RENDEZVOUS=f"no-such-host.invalid:{PORT}")
    assert said.startswith('UnavailableError: cannot resolve "no-such-host.invalid": ')
    assert f"on node2 the rendezvous is no-such-host.invalid:{PORT}: it must be an address" in said


@pytest.mark.parametrize("interface", ["link0", ""])
def test_a_network_without_a_route_is_told_with_its_host(hosts, tmp_path, interface):
    settings = {"RONDE_RENDEZVOUS": f"10.78.0.1:{PORT}", "RONDE_NETWORK_INTERFACE": interface}
    said = said_by_rank_1(hosts, tmp_path, **settings)
    assert "10.78.0.1:29778: Network is unreachable" in said
    assert f"on node2 the rendezvous is 10.78.0.1:{PORT}: it must be an address of" in said


def test_a_host_that_does_not_answer_is_told(hosts, tmp_path):
    said = said_by_rank_1(hosts, tmp_path, RONDE_RENDEZVOUS=f"10.77.0.9:{PORT}")
    assert said.startswith(f"TimeoutError: rank 1 could not reach rank 0 at 10.77.0.9:{PORT}: ")
    assert re.search("no answer|No route to host", said)
    assert "on node2" in said


def test_rank_0_on_another_host_than_the_rendezvous_names_is_told(hosts, tmp_path):
    settings = {"RONDE_RENDEZVOUS": f"{HOSTS[1]}:{PORT}", "RONDE_START_TIMEOUT_MS": VAIN_MS}
    said, _ = outputs(hosts, tmp_path, ({}, {}), **settings)
    assert f"on node1 the rendezvous is {HOSTS[1]}:{PORT}: it must be an address of" in said


def test_an_interface_that_is_not_there_is_told_with_those_that_are(hosts, tmp_path):
    said = said_by_rank_1(hosts, tmp_path, RONDE_NETWORK_INTERFACE="eth9")
    assert said == (
        'InvalidArgumentError: on node2: RONDE_NETWORK_INTERFACE="eth9" is not an address nor '
        "an interface with one; there are: lo, link0"
    )


def test_an_interface_that_other_hosts_cannot_reach_is_refused(hosts, tmp_path):
    first, second = outputs(hosts, tmp_path, ({}, {}), RONDE_NETWORK_INTERFACE="lo")
    for number, said in ((1, first), (2, second)):
        assert said.startswith(
            f'InvalidArgumentError: on node{number}: RONDE_NETWORK_INTERFACE="lo" is 127.0.0.1, '
            "which other hosts cannot reach"
        )


@pytest.mark.parametrize(
    ("text", "mode", "reason"),
    [
        ("5" * 64, 0o644, "must belong to this user and be closed to others"),
        ("hello", 0o600, "does not hold a secret; it must start with 64 hexadecimal digits"),
        (None, 0o600, "cannot be read: No such file or directory"),
    ],
    ids=["mode", "content", "missing"],
)
def test_a_secret_that_is_no_good_is_told_with_its_host(hosts, tmp_path, text, mode, reason):
    file = tmp_path / "own-secret"
    if text is not None:
        write_secret(file, text, mode)
    said = said_by_rank_1(hosts, tmp_path, RONDE_SECRET_FILE=str(file))
    assert said.startswith("InvalidArgumentError: on node2: ")
    assert reason in said


@pytest.mark.slow
def test_a_secret_that_is_not_rank_0s_is_told_on_both_hosts(hosts, tmp_path):
    own = write_secret(tmp_path / "own-secret", "6" * 64)
    # Rank 0 must still listen when rank 1 comes.
    limit = {"RONDE_START_TIMEOUT_MS": "12000"}
    first, second = outputs(hosts, tmp_path, ({}, {"RONDE_SECRET_FILE": own}), **limit)
    assert first.startswith("InvalidArgumentError: on node1: 1 of 2 ranks did not come in time: ")
    assert "rank 1 came with another secret" in first
    assert second.startswith("InvalidArgumentError: on node2: a wrong proof: ")
    for said in (first, second):
        assert "RONDE_SECRET_FILE must hold the same one on all hosts" in said


def test_two_versions_of_ronde_are_told_on_both_hosts(hosts, tmp_path):
    package = Path(ronde.__file__).parent
    shutil.copytree(package, tmp_path / "other" / "ronde")
    core = next((tmp_path / "other" / "ronde").glob("_core*.so"))
    version = ronde.__version__.encode()
    other = re.sub(rb"\d", b"9", version)
    core.write_bytes(core.read_bytes().replace(version, other))
    said = outputs(hosts, tmp_path, ({}, {"PYTHONPATH": str(tmp_path / "other")}))
    expected = (
        f"VersionMismatchError: rank 0 on node1 runs Ronde {ronde.__version__}, but rank 1 on "
        f"node2 runs Ronde {other.decode()}; install the same version on all hosts"
    )
    assert said == [expected, expected]


@pytest.mark.parametrize("modes", [("off", "on"), ("required", "off"), ("on", "required")])
def test_two_modes_of_encryption_are_told_on_both_hosts(hosts, tmp_path, modes):
    first, second = ({"RONDE_ENCRYPTION": mode} for mode in modes)
    expected = (
        f"MismatchError: rank 0 on node1 has RONDE_ENCRYPTION={modes[0]}, but rank 1 on node2 has "
        f"RONDE_ENCRYPTION={modes[1]}; set the same value (off, on or required) on all ranks"
    )
    assert outputs(hosts, tmp_path, (first, second)) == [expected, expected]


@pytest.mark.skipif(shutil.which("c++") is None, reason="needs a compiler")
def test_a_day_between_the_clocks_of_two_hosts_changes_nothing(hosts, tmp_path):
    source = Path(__file__).resolve().parents[3] / "chaos" / "clock_jump.cc"
    library = tmp_path / "clock.so"
    subprocess.run(["c++", "-shared", "-fPIC", "-o", library, source], check=True)
    ahead = {"LD_PRELOAD": str(library), "RONDE_CHAOS_CLOCK_JUMP": "0 86400"}
    first, second = (said.split() for said in outputs(hosts, tmp_path, ({}, ahead)))
    assert (first[0], second[0]) == ("[2.]", "[2.]")
    assert int(second[1]) - int(first[1]) > 86_000
