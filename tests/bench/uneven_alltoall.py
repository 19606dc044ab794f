"""Tokens of a mixture of experts: alltoall with counts that only the sender knows.

ronde run -np 4 -- python tests/bench/uneven_alltoall.py [--tokens 2048] [--width 256]

Against torch.distributed over gloo, whose all_to_all_single needs the counts before: they take an
exchange of their own. Both in turns in the same ranks; what arrives is checked.
"""

import argparse
import statistics
import time

import ronde.torch as hvd
import torch
import torch.distributed as dist


def by_ronde(tokens, counts):
    """The rows that arrive, in order of sender."""
    return hvd.alltoall(tokens, counts, name="tokens")[0]


def by_gloo(tokens, counts):
    """As by_ronde()."""
    received = torch.empty_like(counts)
    dist.all_to_all_single(received, counts)
    rows = tokens.new_empty((int(received.sum()), tokens.shape[1]))
    dist.all_to_all_single(rows, tokens, received.tolist(), counts.tolist())
    return rows


def main():
    """Prints medians, of the slowest rank."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, default=2048)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=30)
    options = parser.parse_args()
    hvd.init()
    dist.init_process_group("gloo")
    torch.set_num_threads(1)
    draw = torch.Generator().manual_seed(hvd.rank())
    times = {by_ronde: [], by_gloo: []}
    for turn in range(options.rounds + 3):
        popular = torch.rand(hvd.size(), generator=draw)
        experts = torch.multinomial(popular, options.tokens, True, generator=draw)
        counts = torch.bincount(experts, minlength=hvd.size())
        tokens = torch.rand((options.tokens, options.width), generator=draw)
        arrived = []
        for way, found in times.items():
            hvd.barrier()
            begin = time.perf_counter()
            arrived.append(way(tokens, counts))
            found.append(time.perf_counter() - begin)
        assert torch.equal(*arrived), turn
    medians = torch.tensor([statistics.median(found[3:]) * 1e6 for found in times.values()])
    slowest = hvd.allreduce(medians, op=hvd.Max).tolist()
    if hvd.rank() == 0:
        print(f"{hvd.size()} ranks, {options.tokens} tokens of {options.width} float32 on each: "
              f"ronde {slowest[0]:.0f} us, gloo with counts before {slowest[1]:.0f} us, "
              f"{slowest[1] / slowest[0]:.2f} times as fast")  # fmt: skip


if __name__ == "__main__":
    main()
