"""The place at which ranks of several hosts meet."""

from __future__ import annotations

import ipaddress
import os
import socket
from collections.abc import Iterable, Sequence
from contextlib import ExitStack, closing, suppress

from ronde import _core
from ronde._errors import InvalidArgumentError

# Documentation's addresses (RFC 5737, RFC 3849): they take the default route.
_ELSEWHERE = ("192.0.2.1", "2001:db8::1")
_PORTS = 3  # another program may take one before rank 0 listens


def own_address() -> str:
    """This host's address towards the job's other hosts; empty if it has none.

    The interface that is set; else the way to RONDE_RENDEZVOUS; else the way to MASTER_ADDR, the
    default route or the first interface, as far as they are no loopback. Raises
    InvalidArgumentError for an interface that this host does not have.
    """
    if chosen := os.environ.get("RONDE_NETWORK_INTERFACE", ""):
        return _chosen_address(chosen.split(",")[0])
    if place := os.environ.get("RONDE_RENDEZVOUS", ""):
        return address_towards(place.rpartition(":")[0].strip("[]"))
    ways = map(address_towards, (os.environ.get("MASTER_ADDR", ""), *_ELSEWHERE))
    all_own = (address for _, address in _core.interface_addresses())
    return _first_outward(ways) or _first_outward(all_own)


def address_towards(host: str) -> str:
    """This host's address on the way to another one; empty if there is no way."""
    if not host:
        return ""
    with suppress(OSError):
        for family, kind, _, _, address in socket.getaddrinfo(host, 9, type=socket.SOCK_DGRAM):
            with suppress(OSError), closing(socket.socket(family, kind)) as probe:
                probe.connect(address)  # sends nothing
                return str(probe.getsockname()[0])
    return ""


def rendezvous_address(own: str, others: Sequence[str]) -> str:
    """ "address:ports" where this process, of address `own`, can listen for `others`.

    The ports are free now. Empty if no address of this host is known. An interface that is set
    counts; else the way to the others' addresses is better known than `own`.
    """
    address = own
    if "RONDE_NETWORK_INTERFACE" not in os.environ:
        outward = (other for other in others if not _is_loopback(other))
        address = _first_outward(map(address_towards, outward)) or own
    if not address:
        return ""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    ports = []
    with ExitStack() as stack:
        for _ in range(_PORTS):
            probe = stack.enter_context(closing(socket.socket(family, socket.SOCK_STREAM)))
            probe.bind((address, 0))
            ports.append(str(probe.getsockname()[1]))
    return with_ports(address, ",".join(ports))


def with_ports(address: str, ports: str) -> str:
    """ "10.0.0.1:80" or "[fd00::1]:80"; `ports` may list several."""
    return f"[{address}]:{ports}" if ":" in address else f"{address}:{ports}"


def _chosen_address(chosen: str) -> str:
    """The address of an entry of RONDE_NETWORK_INTERFACE; IPv4 before IPv6."""
    if _is_address(chosen):
        return chosen
    there = _core.interface_addresses()
    addresses = [address for name, address in there if name == chosen]
    if not addresses:
        names = ", ".join(dict.fromkeys(name for name, _ in there))
        raise InvalidArgumentError(
            f'RONDE_NETWORK_INTERFACE="{chosen}" is not an address nor an interface with one; '
            f"{os.uname().nodename} has: {names}"
        )
    return min(addresses, key=lambda address: ":" in address)


def _first_outward(addresses: Iterable[str]) -> str:
    return next((each for each in addresses if each and not _is_loopback(each)), "")


def _is_address(text: str) -> bool:
    with suppress(ValueError):
        return bool(ipaddress.ip_address(text))
    return False


def _is_loopback(address: str) -> bool:
    return _is_address(address) and ipaddress.ip_address(address).is_loopback
