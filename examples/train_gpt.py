"""Trains a small GPT on the sources of Python's standard library, then lets it write some.

Start it with `ronde run -np 2 -- python examples/train_gpt.py`, or by torchrun. --style chooses how
gradients are averaged: hvd (ronde.torch, as Horovod's scripts), flat (the same with
flat_gradients), ddp or fsdp2 (torch.distributed over Ronde). --shard and --compression are those of
hvd.DistributedOptimizer. The rows of a batch are shared out, so that the loss is the same with any
number of ranks.
"""

import argparse
import json
import sys

import ronde.torch as hvd
import torch
from character_model import CharacterModel, batch_of, load_text, loss_of, written_by
from tqdm import tqdm


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--style", choices=["hvd", "flat", "ddp", "fsdp2"], default="hvd")
    parser.add_argument("--shard", choices=["optimizer", "gradients"], help="with --style hvd")
    parser.add_argument("--compression", default="none", help="with --style hvd, such as int8")
    parser.add_argument("--seed", type=int, default=0, help="of the model's first values")
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--rows", type=int, default=24, help="of a batch, over all ranks")
    parser.add_argument("--length", type=int, default=64, help="characters in a row")
    parser.add_argument("--width", type=int, default=64, help="numbers for each character")
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--learning-rate", type=float, default=0.003)
    parser.add_argument("--write", type=int, default=200, help="characters to write at the end")
    parser.add_argument("--losses", help="write the loss of each step here, as JSON")
    parser.add_argument("--target", type=float, default=5.0, help="greatest loss at the end")
    return parser.parse_args()


def distribute(model, arguments):
    """(model, optimizer) whose gradients are averaged, and whose ranks start as rank 0 does."""

    def adam(parameters):
        return torch.optim.Adam(parameters, lr=arguments.learning_rate)

    if arguments.style in ("hvd", "flat"):
        hvd.broadcast_parameters(model.state_dict(), root_rank=0)
        return model, hvd.DistributedOptimizer(
            adam(model.parameters()),
            named_parameters=model.named_parameters(),
            flat_gradients=arguments.style == "flat",
            compression=arguments.compression,
            shard=arguments.shard,
        )
    import ronde.torch.distributed  # noqa: F401  (registers the backend)

    torch.distributed.init_process_group("ronde", rank=hvd.rank(), world_size=hvd.size())
    if arguments.style == "ddp":
        model = torch.nn.parallel.DistributedDataParallel(model)
    else:
        from torch.distributed.fsdp import fully_shard

        for block in model.blocks:
            fully_shard(block)
        fully_shard(model)
    return model, adam(model.parameters())


def train(model, optimizer, text, arguments, steps):
    """Runs these steps; returns the loss of each, averaged over ranks."""
    losses = []
    for step in steps:
        codes, following = batch_of(text, step, arguments.rows, arguments.length)
        mine = slice(hvd.rank(), None, hvd.size())
        optimizer.zero_grad()
        loss = loss_of(model, codes[mine], following[mine])
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return hvd.allreduce(torch.stack(losses), name="losses").tolist() if losses else []


def main():
    arguments = parse_arguments()
    hvd.init()
    if arguments.rows % hvd.size() != 0:
        sys.exit(f"--rows {arguments.rows} do not divide among {hvd.size()} ranks")
    torch.manual_seed(arguments.seed)
    text = load_text()
    model = CharacterModel(arguments.width, arguments.layers, longest=arguments.length)
    size = sum(parameter.numel() for parameter in model.parameters())
    model, optimizer = distribute(model, arguments)

    speaks = hvd.rank() == 0
    if speaks:
        print(f"{hvd.size()} ranks, {size} parameters, {len(text)} characters of text")
    steps = tqdm(range(arguments.steps), "training", file=sys.stdout, disable=not speaks,
                 ncols=72, unit="step")  # fmt: skip
    losses = train(model, optimizer, text, arguments, steps)
    written = written_by(model, arguments.length, arguments.write)  # all ranks: FSDP needs them
    if speaks and losses:
        print(f"loss {losses[0]:.4f} at the start, {losses[-1]:.4f} at the end")
        print(written, flush=True)
    if speaks and arguments.losses:
        with open(arguments.losses, "w") as file:
            json.dump(losses, file)
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
    hvd.shutdown()
    if losses and losses[-1] > arguments.target:
        sys.exit(f"the loss is above {arguments.target}")


if __name__ == "__main__":
    main()
