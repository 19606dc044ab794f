"""DDP over the backend `ronde`, with nothing set but by the launcher."""

from __future__ import annotations

SCRIPT = """
import torch
import torch.distributed as dist

dist.init_process_group("ronde")
rank, size = dist.get_rank(), dist.get_world_size()
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 1, bias=False))
model(torch.full((1, 2), float(rank))).sum().backward()
print(f"rank {rank} of {size}: {model.module.weight.grad.tolist()}\\n", end="", flush=True)
dist.destroy_process_group()
"""


def lines(size: int) -> list[str]:
    """What its ranks print: the mean of their numbers."""
    return [f"rank {rank} of {size}: {[[(size - 1) / 2] * 2]}" for rank in range(size)]
