"""Trains a character-level transformer on the standard library's sources, data-parallel.

Start it with `ronde run -np 2 -- python examples/train_characters.py`, or by torchrun. The same
training in several styles: --style optimizer (ronde.torch, as Horovod's scripts), flat (the same
with flat_gradients), ddp and fsdp (torch.distributed over Ronde). The rows of a batch are shared
out, so that the loss curve is the same with any number of ranks; with --checkpoint training goes on
where it stopped, also with another number of ranks.
"""

import argparse
import json
import os
import sys

import ronde.torch as hvd
import torch
from character_model import CharacterModel, batch_of, load_text, loss_of
from tqdm import tqdm

STYLES = ["optimizer", "flat", "ddp", "fsdp"]


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--style", choices=["optimizer", "flat", "ddp", "fsdp"], default="optimizer"
    )
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--rows", type=int, default=24, help="of a batch, over all ranks")
    parser.add_argument("--length", type=int, default=64, help="characters in a row")
    parser.add_argument("--learning-rate", type=float, default=0.003)
    parser.add_argument("--double", action="store_true", help="compute in float64")
    parser.add_argument("--checkpoint", help="go on from this file if it is there; save to it")
    parser.add_argument("--losses", help="write the loss of each step here, as JSON")
    parser.add_argument("--target", type=float, default=5.0, help="greatest loss at the end")
    return parser.parse_args()


def distribute(model, arguments):
    """(model, optimizer) whose gradients are averaged over ranks, and who starts as rank 0 does."""

    def adam(parameters):
        return torch.optim.Adam(parameters, lr=arguments.learning_rate)

    if arguments.style in ("optimizer", "flat"):
        hvd.broadcast_parameters(model.state_dict(), root_rank=0)
        return model, hvd.DistributedOptimizer(
            adam(model.parameters()),
            named_parameters=model.named_parameters(),
            flat_gradients=arguments.style == "flat",
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


def load(arguments, model, optimizer):
    """The step to go on with: what the checkpoint says, alike on all ranks, or 0."""
    state = None
    if arguments.checkpoint and hvd.rank() == 0 and os.path.exists(arguments.checkpoint):
        state = torch.load(arguments.checkpoint)
    state = hvd.broadcast_object(state)
    if state is None:
        return 0
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    return state["step"]


def save(arguments, model, optimizer, step):
    if arguments.checkpoint and hvd.rank() == 0:
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
        torch.save(state, arguments.checkpoint + ".new")
        os.replace(arguments.checkpoint + ".new", arguments.checkpoint)


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
    if arguments.checkpoint and arguments.style != "optimizer":
        sys.exit("--checkpoint is for --style optimizer")
    if arguments.double:
        torch.set_default_dtype(torch.float64)
    torch.manual_seed(0)
    text = load_text()
    model, optimizer = distribute(CharacterModel(longest=arguments.length), arguments)
    first = load(arguments, model, optimizer)

    speaks = hvd.rank() == 0
    if speaks:
        print(f"{hvd.size()} ranks, {len(text)} characters, style {arguments.style}")
    steps = tqdm(range(first, arguments.steps), "training", file=sys.stdout, disable=not speaks,
                 ncols=72, unit="step")  # fmt: skip
    losses = train(model, optimizer, text, arguments, steps)
    save(arguments, model, optimizer, arguments.steps)
    if speaks and losses:
        print(f"loss {losses[0]:.4f} at step {first}, {losses[-1]:.4f} at the end", flush=True)
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
