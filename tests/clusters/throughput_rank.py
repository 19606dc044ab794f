"""One rank of throughput.py: it sums, or it moves a plain TCP stream, as its standard input says.

    throughput_rank.py MEGABYTES [--listen|--connect ADDRESS]

Answers each line with when that began and ended, in nanoseconds of the machine's steady clock, and
the processor's time for it: "sum" (an allreduce of float32, checked), "stream" (as many bytes to
the other end and from it).
"""

from __future__ import annotations

import socket
import sys
import threading
import time

import numpy as np
import ronde

PORT = 29782
CYCLE = 1000  # of the numbers summed; float32 holds all sums of them exactly


def connect(how: str, address: str) -> socket.socket:
    """The plain connection; the end that listens is there first or soon."""
    if how == "--listen":
        with socket.create_server((address, PORT)) as server:
            return server.accept()[0]
    while True:
        try:
            return socket.create_connection((address, PORT))
        except ConnectionRefusedError:
            time.sleep(0.01)


def stream(connection: socket.socket, data: memoryview, into: memoryview) -> None:
    """Sends all of `data` and fills `into`, at the same time."""
    sender = threading.Thread(target=connection.sendall, args=(data,))
    sender.start()
    done = 0
    while done < len(into):
        done += connection.recv_into(into[done:], 0, socket.MSG_WAITALL)
    sender.join()


class Rank:
    """This rank's arrays and connections."""

    def __init__(self, megabytes: int, plain: socket.socket | None) -> None:
        self.plain = plain
        count = megabytes << 18
        cycle = np.arange(count, dtype=np.float32) % CYCLE
        self.mine = cycle + ronde.rank()
        self.right = cycle * ronde.size() + sum(range(ronde.size()))
        self.total = np.zeros_like(self.mine)

    def sum(self) -> None:
        """One allreduce."""
        ronde.allreduce(self.mine, op=ronde.Sum, name="sum", out=self.total)

    def stream(self) -> None:
        """As many bytes both ways over the plain connection."""
        assert self.plain is not None
        stream(self.plain, memoryview(self.mine).cast("B"), memoryview(self.total).cast("B"))

    def timed(self, what: str) -> tuple[int, int, int]:
        """When it began and ended, and the processor's time, in nanoseconds."""
        self.total[:] = 0
        if what == "sum":  # all ranks begin at the same time
            ronde.allreduce(np.zeros(1, np.float32), name="begin")
        began, cpu = time.monotonic_ns(), time.process_time_ns()
        {"sum": self.sum, "stream": self.stream}[what]()
        ended, cpu = time.monotonic_ns(), time.process_time_ns() - cpu
        assert what == "stream" or np.array_equal(self.total, self.right), "a wrong sum"
        return began, ended, cpu


def main() -> None:
    """Serves until standard input ends."""
    ronde.init()
    rank = Rank(int(sys.argv[1]), connect(*sys.argv[2:]) if sys.argv[2:] else None)
    print("ready", flush=True)
    for line in sys.stdin:
        print(*rank.timed(line.strip()), flush=True)
    ronde.shutdown()


if __name__ == "__main__":
    main()
