"""Compares what communication adds to a training step: ronde.torch, DDP over Ronde, DDP over Gloo.

Start it with `ronde run -np 2 -- python examples/compare_overlap.py`. All variants train the same
transformer in the same processes and take turns step by step, so that noise of the machine hits
them alike. A step lasts from the first rank's begin to the last one's end, on the clock that the
processes of a host share. Exposed time is what it takes longer than one without communication;
"DDP, nothing sent" shows how much of that DDP needs for its buckets, whatever sends them. MPI takes
part where PyTorch was built with it.
"""

import argparse
import statistics
import sys
import time

import ronde.torch as hvd
import ronde.torch.distributed  # noqa: F401  (registers the backend)
import torch
import torch.distributed as dist
from character_model import CharacterModel, batch_of, load_text, loss_of
from torch.nn.parallel import DistributedDataParallel
from tqdm import tqdm


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=30, help="steps of each variant")
    parser.add_argument("--rows", type=int, default=4, help="of a batch, on each rank")
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--layers", type=int, default=4)
    return parser.parse_args()


def keep_bucket(_, bucket):
    """A communication hook that leaves each rank its own gradients."""
    future = torch.futures.Future()
    future.set_result(bucket.buffer())
    return future


def variants(arguments):
    """name -> (model, optimizer); each has a model of its own."""

    def made(wrap=lambda model: model, distribute=lambda optimizer, model: optimizer):
        torch.manual_seed(0)
        model = wrap(CharacterModel(arguments.width, arguments.layers))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        return model, distribute(optimizer, model)

    def averaged(**options):
        return lambda optimizer, model: hvd.DistributedOptimizer(
            optimizer, named_parameters=model.named_parameters(), **options
        )

    def replicated(backend):
        group = dist.group.WORLD if backend == "ronde" else dist.new_group(backend=backend)
        return lambda model: DistributedDataParallel(model, process_group=group)

    def unsent(model):
        model = replicated("ronde")(model)
        model.register_comm_hook(None, keep_bucket)
        return model

    # The peers' groups first: torch's Gloo group waits for ever where it is let go of before its
    # thread has dropped its last work, for which that needs Python's lock.
    peers = [name for name in ("gloo", "mpi") if getattr(dist, f"is_{name}_available")()]
    return {f"DDP over {name}": made(replicated(name)) for name in peers} | {
        "no communication": made(),
        "optimizer": made(distribute=averaged()),
        "flat optimizer": made(distribute=averaged(flat_gradients=True)),
        "DDP, nothing sent": made(unsent),
        "DDP over ronde": made(replicated("ronde")),
    }


def step_time(model, optimizer, codes, following):
    """Seconds of one step from loss to updated weights, over all ranks of the host."""
    hvd.barrier()
    begin = time.perf_counter()
    optimizer.zero_grad()
    loss_of(model, codes, following).backward()
    optimizer.step()
    mine = torch.tensor([-begin, time.perf_counter()], dtype=torch.float64)
    return hvd.allreduce(mine, op=hvd.Max).sum().item()


def main():
    arguments = parse_arguments()
    hvd.init()
    dist.init_process_group("ronde", rank=hvd.rank(), world_size=hvd.size())
    text = load_text()
    trained = variants(arguments)
    times = {name: [] for name in trained}
    rounds = tqdm(range(arguments.rounds + 3), "rounds", file=sys.stdout, ncols=72,
                  disable=hvd.rank() != 0)  # fmt: skip
    for step in rounds:
        codes, following = batch_of(text, step * hvd.size() + hvd.rank(), arguments.rows, 64)
        for name, (model, optimizer) in trained.items():
            took = step_time(model, optimizer, codes, following)
            if step >= 3:
                times[name].append(took)
    if hvd.rank() == 0:
        alone = times["no communication"]
        size = sum(p.numel() for p in trained["no communication"][0].parameters()) * 4
        print(f"{hvd.size()} ranks, {size / 1e6:.1f} MB of gradients, medians")
        for name, taken in times.items():
            exposed = statistics.median(t - a for t, a in zip(taken, alone))
            median = statistics.median(taken)
            print(f"{name:18} step {median * 1e3:8.2f} ms, exposed {exposed * 1e3:8.2f} ms")
    dist.destroy_process_group()
    hvd.shutdown()


if __name__ == "__main__":
    main()
