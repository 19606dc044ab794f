"""Looks for texts in all packets of a network namespace.

    sniffer.py INTERFACE TEXT...

Writes "ready"; once its standard input ends, the number of packets and which texts it has seen.
"""

from __future__ import annotations

import select
import socket
import sys

ETH_P_ALL = 3
SO_RCVBUFFORCE = 33


def main(interface: str, texts: list[str]) -> None:
    """Watches until standard input ends and no packet is left."""
    packets = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
    packets.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 256 << 20)
    packets.bind((interface, ETH_P_ALL))
    print("ready", flush=True)
    count, seen, ends = 0, set(), False
    while True:
        readable, _, _ = select.select([packets] if ends else [packets, sys.stdin], [], [], 0)
        if not readable and ends:
            break
        if not readable:
            select.select([packets, sys.stdin], [], [])
            continue
        ends = ends or sys.stdin in readable
        if packets in readable:
            packet = packets.recv(1 << 17)
            count += 1
            seen |= {text for text in texts if text.encode() in packet}
    print(count, *sorted(seen), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
