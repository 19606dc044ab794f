"""Saves a checkpoint every few steps, and goes on from it when it is started again.

    ronde run -np 2 -- python examples/train_checkpoint.py --stop-after 30
    ronde run -np 3 -- python examples/train_checkpoint.py

The second command goes on at step 30, here with another number of ranks: the loss is what it would
be without the stop. Rank 0 saves model, optimizer and step; a file that is half written never takes
the place of a whole one. Elastic jobs need no such file to survive a rank: see docs/elastic.md.
"""

import argparse
import json
import os
import sys

import ronde.torch as hvd
import torch
from character_model import CharacterModel, load_text
from train_gpt import train


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--checkpoint", default="checkpoint.pt")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--save-every", type=int, default=10, help="steps")
    parser.add_argument("--stop-after", type=int, help="end early, at this step")
    parser.add_argument("--rows", type=int, default=24, help="of a batch, over all ranks")
    parser.add_argument("--length", type=int, default=64, help="characters in a row")
    parser.add_argument("--double", action="store_true", help="compute in float64")
    parser.add_argument("--losses", help="write the loss of each step here, as JSON")
    return parser.parse_args()


def load(path, model, optimizer):
    """The step to go on with: what the checkpoint says, alike on all ranks, or 0."""
    state = torch.load(path) if hvd.rank() == 0 and os.path.exists(path) else None
    state = hvd.broadcast_object(state)  # so that only rank 0 needs the file
    if state is None:
        hvd.broadcast_parameters(model.state_dict(), root_rank=0)
        return 0
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    return state["step"]


def save(path, model, optimizer, step):
    """Rank 0 writes a new file, then puts it in the place of the old one."""
    if hvd.rank() == 0:
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
        torch.save(state, path + ".new")
        os.replace(path + ".new", path)


def main():
    arguments = parse_arguments()
    hvd.init()
    if arguments.rows % hvd.size() != 0:
        sys.exit(f"--rows {arguments.rows} do not divide among {hvd.size()} ranks")
    if arguments.double:
        torch.set_default_dtype(torch.float64)
    torch.manual_seed(0)
    text = load_text()
    model = CharacterModel(longest=arguments.length)
    optimizer = hvd.DistributedOptimizer(
        torch.optim.Adam(model.parameters(), lr=0.003), named_parameters=model.named_parameters()
    )
    first = load(arguments.checkpoint, model, optimizer)
    last = min(arguments.stop_after or arguments.steps, arguments.steps)
    losses = []
    for begin in range(first, last, arguments.save_every):
        end = min(begin + arguments.save_every, last)
        losses += train(model, optimizer, text, arguments, range(begin, end))
        save(arguments.checkpoint, model, optimizer, end)
        if hvd.rank() == 0:
            print(f"step {end}: loss {losses[-1]:.4f}, saved", flush=True)
    if hvd.rank() == 0:
        print(f"{hvd.size()} ranks trained from step {first} to {max(first, last)}", flush=True)
        if arguments.losses:
            with open(arguments.losses, "w") as file:
                json.dump(losses, file)
    hvd.shutdown()


if __name__ == "__main__":
    main()
