"""Trains a small GPT in three ways at once: pipeline, data (FSDP2) and tensor parallel, on 8 ranks.

Start it with `ronde run -np 8 -- python examples/train_gpt_3d.py`, or with
`torchrun --nproc-per-node 8 examples/train_gpt_3d.py`. Everything is PyTorch's own; only the
backend's name is Ronde's. The loss of each step is that of train_gpt.py with the same options.
"""

import argparse
import json
import sys

import torch
import torch.distributed as dist
from character_model import CharacterModel, ModelPart, batch_of, load_text, loss_of_logits
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.pipelining import PipelineStage, Schedule1F1B
from torch.distributed.tensor import Replicate
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from tqdm import tqdm


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pipeline", type=int, default=2, help="stages")
    parser.add_argument("--tensor", type=int, default=2, help="ranks that share each matrix")
    parser.add_argument("--microbatches", type=int, default=4, help="of a rank's rows")
    parser.add_argument("--bfloat16", action="store_true", help="compute in it, add in float32")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--rows", type=int, default=32, help="of a batch, over all ranks")
    parser.add_argument("--length", type=int, default=64, help="characters in a row")
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--losses", help="write the loss of each step here, as JSON")
    parser.add_argument("--target", type=float, default=5.0, help="greatest loss at the end")
    return parser.parse_args()


def distribute(part, mesh, arguments):
    """Splits the matrices over "tensor", and shards all parameters over "data"."""
    plan = {
        "query_key_value": ColwiseParallel(output_layouts=Replicate()),
        "attended": RowwiseParallel(input_layouts=Replicate()),
        "forward_part.1": ColwiseParallel(),
        "forward_part.3": RowwiseParallel(),
    }
    # Parameters stay whole from one microbatch to the next.
    options = {"mesh": mesh["data"], "reshard_after_forward": False}
    if arguments.bfloat16:
        options["mp_policy"] = MixedPrecisionPolicy(torch.bfloat16, torch.float32)
    for block in part.blocks:
        parallelize_module(block, mesh["tensor"], plan)
        fully_shard(block, **options)
    return fully_shard(part, **options)


def make_schedule(mesh, arguments):
    """The schedule of this rank's stage, and its module."""
    torch.manual_seed(0)  # all ranks make the same model, and keep their part
    model = CharacterModel(layers=arguments.layers, longest=arguments.length)
    at, stages = mesh.get_local_rank("pipeline"), arguments.pipeline
    blocks = range(at * arguments.layers // stages, (at + 1) * arguments.layers // stages)
    part = distribute(ModelPart(model, blocks), mesh, arguments)
    stage = PipelineStage(part, at, stages, torch.device("cpu"), group=mesh.get_group("pipeline"))

    def loss_fn(logits, following):
        return loss_of_logits(logits.float(), following)

    return Schedule1F1B(stage, arguments.microbatches, loss_fn=loss_fn), part


def train_step(schedule, part, codes, following):
    """One forward and backward pass; returns the loss on ranks of the last stage, else 0."""
    found, given = [], [codes] if part.is_first else []
    wanted = {"target": following, "losses": found} if part.is_last else {}
    schedule.step(*given, **wanted)
    return torch.stack(found).mean().detach() if found else torch.zeros(())


def train(mesh, arguments):
    """The loss of each step."""
    schedule, part = make_schedule(mesh, arguments)
    optimizer = torch.optim.Adam(part.parameters(), lr=0.003)
    mine = slice(mesh.get_local_rank("data"), None, mesh.size(1))
    text, losses = load_text(), []
    steps = tqdm(range(arguments.steps), "training", file=sys.stdout, ncols=72, unit="step",
                 disable=dist.get_rank() != 0)  # fmt: skip
    for step in steps:
        codes, following = batch_of(text, step, arguments.rows, arguments.length)
        optimizer.zero_grad()
        losses.append(train_step(schedule, part, codes[mine], following[mine]))
        optimizer.step()
    all_losses = torch.stack(losses)
    dist.all_reduce(all_losses)
    return (all_losses * arguments.pipeline / dist.get_world_size()).tolist()


def main():
    arguments = parse_arguments()
    dist.init_process_group("ronde")
    size, others = dist.get_world_size(), arguments.pipeline * arguments.tensor
    if size % others != 0 or arguments.rows % (size // others * arguments.microbatches) != 0:
        sys.exit(f"{size} ranks: not a multiple of --pipeline times --tensor, or rows left over")
    if arguments.layers < arguments.pipeline:
        sys.exit(f"--layers {arguments.layers} is less than --pipeline {arguments.pipeline}")
    shape = (arguments.pipeline, size // others, arguments.tensor)
    mesh = init_device_mesh("cpu", shape, mesh_dim_names=("pipeline", "data", "tensor"))
    losses = train(mesh, arguments)
    if dist.get_rank() == 0:
        print(f"{mesh}: loss {losses[0]:.4f} at the start, {losses[-1]:.4f} at the end", flush=True)
        if arguments.losses:
            with open(arguments.losses, "w") as file:
                json.dump(losses, file)
    dist.destroy_process_group()
    if losses[-1] > arguments.target:
        sys.exit(f"the loss is above {arguments.target}")


if __name__ == "__main__":
    main()
