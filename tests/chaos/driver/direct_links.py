#!/usr/bin/env python3
"""A rank that learns of a death by its own TCP connection, for many_hosts --direct.

    direct_links.py ADDRESS PORT VICTIM

The victim listens there and accepts all other ranks. Each says "first" once it is connected, and
"failed" at the end of its connection.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time

RANK, SIZE = int(os.environ["RONDE_RANK"]), int(os.environ["RONDE_SIZE"])


def say(event: str, **fields: object) -> None:
    """One event, as the chaos worker writes them."""
    at_us = time.monotonic_ns() // 1000
    print(json.dumps({"event": event, "at_us": at_us, "rank": RANK, **fields}), flush=True)


def serve(address: str, port: int) -> None:
    """Accepts all others, and waits to be killed."""
    with socket.create_server((address, port), backlog=SIZE) as server:
        peers = [server.accept()[0] for _ in range(SIZE - 1)]
    say("first")
    peers[0].recv(1)


def connect(address: str, port: int, victim: int) -> None:
    """Connects, and waits for the end."""
    while True:
        try:
            peer = socket.create_connection((address, port), timeout=10)
            break
        except ConnectionRefusedError:
            time.sleep(0.01)
    say("first")
    peer.settimeout(None)
    peer.recv(1)
    say("failed", about=victim, message="its connection closed")


if __name__ == "__main__":
    where, number, victim = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    if victim == RANK:
        serve(where, number)
    else:
        connect(where, number, victim)
