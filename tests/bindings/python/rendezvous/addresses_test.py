"""The place at which ranks of several hosts meet, and their secret."""

import os
import stat
from pathlib import Path

import pytest
import ronde

pytest.importorskip("ronde.torch.distributed", exc_type=ImportError)
from ronde import _core
from ronde._rendezvous import addresses, store
from ronde._rendezvous.peers import Peer
from ronde._rendezvous.secret import SecretFile, new_secret


@pytest.fixture(autouse=True)
def nothing_is_set(monkeypatch):
    for name in ("RONDE_NETWORK_INTERFACE", "RONDE_RENDEZVOUS", "RONDE_SECRET_FILE", "MASTER_ADDR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("RONDE_SECRET_FD", raising=False)


def peers(*hosts, **fields):
    """Ranks on these hosts; `fields`: those of the first one."""
    mine = {**Peer.me().fields(), "address": "127.0.0.1"}
    ranks = [Peer.from_fields({**mine, "host": f"{host} boot 1"}) for host in hosts]
    return [Peer.from_fields({**ranks[0].fields(), **fields}), *ranks[1:]]


def test_an_interface_that_is_set_counts(monkeypatch):
    monkeypatch.setenv("RONDE_NETWORK_INTERFACE", "lo")
    assert ("lo", "127.0.0.1") in _core.interface_addresses()
    assert addresses.own_address() == "127.0.0.1"
    for address in ("10.9.8.7", "fd00::7"):
        monkeypatch.setenv("RONDE_NETWORK_INTERFACE", address)
        assert addresses.own_address() == address


def test_an_interface_that_is_not_there_is_an_error_that_names_those_that_are(monkeypatch):
    monkeypatch.setenv("RONDE_NETWORK_INTERFACE", "ib7")
    with pytest.raises(ronde.InvalidArgumentError, match=f'"ib7".*{os.uname().nodename} has: .*lo'):
        addresses.own_address()


def test_the_address_is_none_of_the_loopback_unless_there_is_no_other(monkeypatch):
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    assert not addresses.own_address().startswith("127.")


@pytest.mark.parametrize(("own", "start"), [("127.0.0.1", "127.0.0.1:"), ("::1", "[::1]:")])
def test_a_rendezvous_has_three_ports(own, start):
    if own not in (address for _, address in _core.interface_addresses()):
        pytest.skip(f"no {own} here")
    place = addresses.rendezvous_address(own, ["127.0.0.1"])
    assert place.startswith(start)
    assert len({*map(int, place.removeprefix(start).split(","))}) == 3


def test_a_secret_is_in_a_file_that_this_user_alone_can_read():
    file = SecretFile()
    first, second = new_secret(), new_secret()
    assert first != second
    file.keep(first)
    before = len(os.listdir("/proc/self/fd"))
    path = Path(file.keep(second))
    assert len(os.listdir("/proc/self/fd")) == before
    assert path.read_text() == second
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_ranks_of_one_host_need_neither_place_nor_secret():
    agreed = store._agreement("job", peers("a", "a"))
    assert (agreed.place, agreed.secret) == ("", "")


def test_ranks_of_two_hosts_get_a_place_and_a_secret():
    agreed = store._agreement("job", peers("a", "b"))
    assert agreed.place.startswith("127.0.0.1:")
    assert len(agreed.secret) == 64


def test_settings_on_some_hosts_alone_are_an_error():
    for field, name in (("has_rendezvous", "RENDEZVOUS"), ("has_secret", "SECRET_FILE")):
        message = f"rank 0 on a has RONDE_{name}, but rank 1 on b has none"
        with pytest.raises(ronde.InvalidArgumentError, match=message):
            store._agreement("job", peers("a", "b", **{field: True}))


def test_no_secret_goes_through_the_store_if_the_user_has_set_one(monkeypatch, tmp_path):
    monkeypatch.setenv("RONDE_SECRET_FILE", str(tmp_path / "secret"))
    agreed = store._agreement("job", peers("a", "b"))
    assert agreed.place
    assert agreed.secret == ""


def test_a_host_without_an_address_is_an_error_with_a_remedy():
    nowhere = [Peer.from_fields({**each.fields(), "address": ""}) for each in peers("a", "b")]
    with pytest.raises(ronde.UnavailableError, match=r"host a has no address.*NETWORK_INTERFACE"):
        store._agreement("job", nowhere)
