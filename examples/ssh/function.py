"""Calls a function of this script on ranks of several hosts, and prints what it returned there.

python examples/ssh/function.py node1:2,node2:2
"""

import socket
import sys

import numpy as np
import ronde


def total(base):
    ronde.init()
    summed = ronde.allreduce(np.array([base + ronde.rank()]), op=ronde.Sum)[0]
    return f"{ronde.local_rank()} on {socket.gethostname()}: {summed:.0f}"


if __name__ == "__main__":
    for rank, said in enumerate(ronde.run(total, (1.0,), np=4, hosts=sys.argv[1])):
        print(f"rank {rank} returned {said}")
