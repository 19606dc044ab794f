"""Each rank adds its number plus one: the shortest program that shows that a job has met."""

import socket

import numpy as np
import ronde

ronde.init()
total = ronde.allreduce(np.array([ronde.rank() + 1.0]), op=ronde.Sum)[0]
place = f"{ronde.local_rank()} on {socket.gethostname()}"
print(f"rank {ronde.rank()} of {ronde.size()} ({place}): {total:.0f}", flush=True)
