"""Sums of sparse gradients: by keys, and by an allgather of all rows, in turns in the same ranks.

ronde run -np 8 -- python tests/bench/sparse_gradients.py [--rows 1000000] [--width 64]

Each rank has 1 % of the table's rows, drawn by Zipf's law (1.1) without repetition from those that
the step uses: 1.5 times as many. Sums are whole numbers and are checked. Target, 8 ranks: at least
3 times as fast as the allgather, which adds up by coalesce() as Ronde did before.
"""

import argparse
import statistics
import time

import numpy as np
import ronde.torch as hvd
import torch


def drawn(table, count, rank, skew=1.1):
    """`count` different rows of those in use, the frequent ones on most ranks."""
    used = np.random.default_rng(0).choice(table, count * 3 // 2, replace=False)
    weights = -skew * np.log(np.arange(1, len(used) + 1))
    noise = np.random.default_rng(rank + 1).gumbel(size=len(used))
    return used[np.argsort(-(weights + noise))[:count]]


def by_allgather(gradient):
    """The sum as a coalesced tensor."""
    places, values = hvd.grouped_allgather(
        [gradient._indices().t().contiguous(), gradient._values()], name="gathered"
    )
    return torch.sparse_coo_tensor(places.t(), values, gradient.shape).coalesce()


def by_ronde(gradient):
    """The sum by the path that Ronde chooses."""
    return hvd.sparse_allreduce_async(gradient, name="summed", op=hvd.Sum)()


def main():
    """Prints medians, of the slowest rank."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    hvd.init()
    torch.set_num_threads(1)
    rows = drawn(options.rows, options.rows // 100, hvd.rank())
    values = torch.randint(-8, 8, (len(rows), options.width)).float()
    shape = (options.rows, options.width)
    gradient = torch.sparse_coo_tensor(rows[None], values, shape)
    times = {by_ronde: [], by_allgather: []}
    for turn in range(options.rounds + 1):
        sums = []
        for way, found in times.items():
            hvd.barrier()
            begin = time.perf_counter()
            sums.append(way(gradient))
            found.append(time.perf_counter() - begin)
        if turn == 0:
            assert torch.equal(sums[0].indices(), sums[1].indices())
            assert torch.equal(sums[0].values(), sums[1].values())
    union = sums[0]._nnz() / len(rows)
    medians = torch.tensor([statistics.median(found[1:]) * 1e3 for found in times.values()])
    slowest = hvd.allreduce(medians, op=hvd.Max).tolist()
    if hvd.rank() == 0:
        print(f"{hvd.size()} ranks, {len(rows)} rows of {options.width} float32 on each, the union "
              f"{union:.2f} times as many")  # fmt: skip
        print(f"ronde {slowest[0]:.1f} ms, allgather {slowest[1]:.1f} ms: "
              f"{slowest[1] / slowest[0]:.2f} times as fast")  # fmt: skip


if __name__ == "__main__":
    main()
