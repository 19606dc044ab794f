"""Trains a small GPT whose blocks are dealt to the ranks: PyTorch's pipeline schedules over Ronde.

Start it with `ronde run -np 4 --timeline trace.json -- python examples/train_pipeline.py`, or by
torchrun. `ronde timeline report trace.json` then tells the bubble, and which stage makes it.
"""

import argparse
import json
import sys

import ronde
import torch
import torch.distributed as dist
from character_model import CharacterModel, ModelPart, batch_of, load_text, loss_of_logits
from torch.distributed.pipelining import PipelineStage
from torch.distributed.pipelining.schedules import get_schedule_class
from tqdm import tqdm

LOOP = ("Interleaved1F1B", "InterleavedZeroBubble")  # rank r has the stages r and N + r
VEE = ("ZBVZeroBubble", "DualPipeV")  # rank r has the stages r and 2 N - 1 - r


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--schedule", choices=["GPipe", "1F1B", *LOOP, *VEE], default="1F1B")
    parser.add_argument("--microbatches", type=int, default=8)
    parser.add_argument("--blocks", type=int, nargs="+", help="of each stage; 1 if not given")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--rows", type=int, default=24, help="of a batch")
    parser.add_argument("--length", type=int, default=64, help="characters in a row")
    parser.add_argument("--width", type=int, default=64, help="numbers for each character")
    parser.add_argument("--learning-rate", type=float, default=0.003)
    parser.add_argument("--losses", help="write the loss of each step here, as JSON")
    parser.add_argument("--target", type=float, default=5.0, help="greatest loss at the end")
    return parser.parse_args()


def stages_of(schedule):
    """The numbers of this rank's stages, and how many there are in all."""
    rank, size = dist.get_rank(), dist.get_world_size()
    if schedule in LOOP:
        return [rank, size + rank], 2 * size
    if schedule in VEE:
        return [rank, 2 * size - 1 - rank], 2 * size
    return [rank], size


def make_stages(arguments):
    """This rank's stages."""
    mine, count = stages_of(arguments.schedule)
    blocks = arguments.blocks or [1] * count
    if len(blocks) != count or min(blocks) < 1:
        sys.exit(
            f"--blocks {blocks} must be {count} numbers from 1 on, as there are {count} stages"
        )
    torch.manual_seed(0)  # all ranks make the same model, and keep their part
    model = CharacterModel(arguments.width, sum(blocks), longest=arguments.length)
    parts = [range(sum(blocks[:at]), sum(blocks[: at + 1])) for at in mine]
    return [
        PipelineStage(ModelPart(model, part), at, count, torch.device("cpu"))
        for at, part in zip(mine, parts)
    ]


def train(stages, arguments):
    """The loss of each step, on all ranks."""
    schedule = get_schedule_class(arguments.schedule)(
        stages if len(stages) > 1 else stages[0], arguments.microbatches, loss_fn=loss_of_logits
    )
    parameters = [p for stage in stages for p in stage.submod.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=arguments.learning_rate)
    is_first, is_last = (any(flags) for flags in zip(*[(s.is_first, s.is_last) for s in stages]))
    text, losses = load_text(), []
    for step in tqdm(range(arguments.steps), "training", file=sys.stdout, ncols=72, unit="step",
                     disable=dist.get_rank() != 0):  # fmt: skip
        codes, following = batch_of(text, step, arguments.rows, arguments.length)
        optimizer.zero_grad()
        found = []
        given = [codes] if is_first else []
        schedule.step(*given, **({"target": following, "losses": found} if is_last else {}))
        optimizer.step()
        losses.append(torch.stack(found).mean().detach() if is_last else torch.zeros(()))
        ronde.mark_step()
    all_losses = torch.stack(losses)
    dist.all_reduce(all_losses)  # zero on all ranks but that of the last stage
    return all_losses.tolist()


def main():
    arguments = parse_arguments()
    dist.init_process_group("ronde")
    if arguments.rows % arguments.microbatches != 0:
        sys.exit(
            f"--rows {arguments.rows} do not divide into {arguments.microbatches} microbatches"
        )
    losses = train(make_stages(arguments), arguments)
    if dist.get_rank() == 0:
        print(f"loss {losses[0]:.4f} at the start, {losses[-1]:.4f} at the end", flush=True)
        if arguments.losses:
            with open(arguments.losses, "w") as file:
                json.dump(losses, file)
    dist.destroy_process_group()
    if losses[-1] > arguments.target:
        sys.exit(f"the loss is above {arguments.target}")


if __name__ == "__main__":
    main()
