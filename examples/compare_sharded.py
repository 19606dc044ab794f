"""Compares sharded optimizers in time and memory: dense, shard=..., and torch's ZeRO over Gloo.

Start it with `ronde run -np 2 -- python examples/compare_sharded.py`. All variants, or those that
--only names, train the same transformer with Adam in the same processes and take turns, so that
noise of the machine hits them alike. A turn is a few steps in a row, from the first rank's begin to
the last one's end. Exposed time is what a step takes longer than a forward and backward pass:
communication and update.
"""

import argparse
import os
import statistics
import sys
import time

import ronde.torch as hvd
import torch
import torch.distributed as dist
from character_model import CharacterModel, batch_of, load_text, loss_of
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel
from tqdm import tqdm


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=10, help="turns of each variant")
    parser.add_argument("--steps", type=int, default=3, help="of a turn")
    parser.add_argument("--rows", type=int, default=2, help="of a batch, on each rank")
    parser.add_argument("--width", type=int, default=384)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--only", nargs="+", default=[], help="variants; all by default")
    return parser.parse_args()


class NoOptimizer:
    """Steps that change nothing."""

    def __init__(self, model):
        """Of the model's parameters."""
        self._parameters = list(model.parameters())

    def zero_grad(self):
        """Frees the gradients."""
        for parameter in self._parameters:
            parameter.grad = None

    def step(self):
        """Does nothing."""


def variants(arguments):
    """name -> a function that makes (model, optimizer)."""

    def model_of():
        torch.manual_seed(0)
        return CharacterModel(arguments.width, arguments.layers)

    def sharded(**options):
        model = model_of()
        given = {"model": model} if options.pop("overlaps", False) else {}
        inner = torch.optim.Adam(model.parameters(), lr=1e-3)
        names = model.named_parameters()
        return model, hvd.DistributedOptimizer(inner, names, **options, **given)

    def zero():
        gloo = dist.group.WORLD
        model = DistributedDataParallel(model_of(), process_group=gloo)
        return model, ZeroRedundancyOptimizer(
            model.parameters(), torch.optim.Adam, process_group=gloo, lr=1e-3
        )

    def nothing():
        model = model_of()
        return model, NoOptimizer(model)

    return {
        "forward and backward": nothing,
        "dense": sharded,
        "dense, flat": lambda: sharded(flat_gradients=True),
        "optimizer": lambda: sharded(shard="optimizer"),
        "optimizer, overlaps": lambda: sharded(shard="optimizer", overlaps=True),
        "gradients": lambda: sharded(shard="gradients"),
        "optimizer, int8": lambda: sharded(shard="optimizer", compression=hvd.Compression.int8),
        "ZeRO over Gloo": zero,
    }


def turn(model, optimizer, text, steps, arguments):
    """Seconds of a step, over all ranks of the host."""
    batches = [batch_of(text, step * hvd.size() + hvd.rank(), arguments.rows, 64) for step in steps]
    hvd.barrier()
    begin = time.perf_counter()
    for codes, following in batches:
        optimizer.zero_grad()
        loss_of(model, codes, following).backward()
        optimizer.step()
    if hasattr(optimizer, "wait_for_parameters"):
        optimizer.wait_for_parameters()
    mine = torch.tensor([-begin, time.perf_counter()], dtype=torch.float64)
    return hvd.allreduce(mine, op=hvd.Max).sum().item() / len(batches)


def state_bytes(optimizer):
    """The bytes of an optimizer's state on this rank."""
    inner = getattr(optimizer, "optim", optimizer)
    tensors = [v for one in getattr(inner, "state", {}).values() for v in one.values()]
    return sum(v.numel() * v.element_size() for v in tensors if isinstance(v, torch.Tensor))


def main():
    arguments = parse_arguments()
    hvd.init()
    wanted = arguments.only and ["forward and backward", *arguments.only]
    chosen = {n: make for n, make in variants(arguments).items() if n in wanted or not wanted}
    if "ZeRO over Gloo" in chosen:
        dist.init_process_group("gloo", rank=hvd.rank(), world_size=hvd.size())
    text = load_text()
    trained = {name: make() for name, make in chosen.items()}
    times = {name: [] for name in trained}
    rounds = tqdm(range(arguments.rounds + 2), "rounds", file=sys.stdout, ncols=72,
                  disable=hvd.rank() != 0)  # fmt: skip
    for number in rounds:
        steps = range(number * arguments.steps, (number + 1) * arguments.steps)
        for name, (model, optimizer) in trained.items():
            took = turn(model, optimizer, text, steps, arguments)
            if number >= 2:
                times[name].append(took)
    if hvd.rank() == 0:
        report(trained, times)
    if dist.is_initialized():
        dist.destroy_process_group()
    hvd.shutdown()


def report(trained, times):
    """Prints medians, and the memory of rank 0."""
    alone = times["forward and backward"]
    model = trained["forward and backward"][0]
    size = sum(p.numel() for p in model.parameters())
    print(f"{hvd.size()} ranks, {size / 1e6:.1f} M parameters, medians, load {os.getloadavg()[0]}")
    first = next((name for name in times if name != "forward and backward"), None)
    base = statistics.median(t - a for t, a in zip(times[first], alone)) if first else 1.0
    for name, taken in times.items():
        exposed = statistics.median(t - a for t, a in zip(taken, alone))
        print(
            f"{name:21} step {statistics.median(taken) * 1e3:8.1f} ms, "
            f"exposed {exposed * 1e3:8.1f} ms ({exposed / base:4.2f} x {first}), "
            f"state {state_bytes(trained[name][1]) / 1e6:6.1f} MB"
        )


if __name__ == "__main__":
    main()
