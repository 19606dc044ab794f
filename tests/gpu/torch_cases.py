"""Every collective of ronde.torch on CUDA tensors, on each rank of a job; compared with the CPU's.

    ronde run -np 2 -- python tests/gpu/torch_cases.py [--kill | --figures] [--cpu]

Ranks take the devices in turn. --kill: rank 1 is killed while data moves; the others must learn it.
--cpu: the same on CPU tensors, which tells a fault of this script from one of the GPU path.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

import ronde
import ronde.torch as hvd
import torch

DEVICE = "cpu" if "--cpu" in sys.argv else "cuda"

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
WHOLE = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
COUNTS = (0, 1, 17, 100_003)


def made(rank: int, count: int, dtype: torch.dtype) -> torch.Tensor:
    """What `rank` holds: small numbers that every type adds exactly, on this rank's device."""
    return ((torch.arange(count) % 5 + rank) % 7).to(dtype).to(DEVICE)


def everyone(count: int, dtype: torch.dtype) -> torch.Tensor:
    """The exact inputs of all ranks, one row each."""
    rows = [made(r, count, torch.float64).cpu() for r in range(hvd.size())]
    return torch.stack(rows) if rows else torch.empty(0)


def same(got: torch.Tensor, wanted: torch.Tensor, what: str) -> None:
    """Requires equality, and that the result is on the device."""
    assert got.device.type == DEVICE, f"{what}: the result is on {got.device}"
    close = torch.allclose(
        got.double().cpu(), wanted.double(), rtol=1e-2 if got.element_size() == 2 else 1e-6
    )
    assert close, f"{what}: {got.flatten()[:5]} instead of {wanted.flatten()[:5]}"


def reductions() -> None:
    """Sums, averages, extremes and products of every type that has them."""
    ops = {
        hvd.Sum: lambda t: t.sum(0),
        hvd.Min: lambda t: t.min(0).values,
        hvd.Max: lambda t: t.max(0).values,
    }
    for dtype in FLOATS + WHOLE:
        for count in COUNTS[1:]:
            for op, combine in ops.items():
                got = hvd.allreduce(made(hvd.rank(), count, dtype), op=op)
                same(got, combine(everyone(count, dtype)), f"allreduce of {dtype}, op {op}")
        if dtype.is_floating_point:
            got = hvd.allreduce(made(hvd.rank(), 1000, dtype), op=hvd.Average)
            same(got, everyone(1000, dtype).mean(0), f"average of {dtype}")
    huge = hvd.allreduce(torch.full((64,), 6e4, dtype=torch.float16).to(DEVICE), op=hvd.Average)
    assert torch.isfinite(huge).all(), "an average of float16 overflowed"


def movement() -> None:
    """allgather of uneven parts, broadcast, alltoall, reducescatter, a group of many tensors."""
    rank, size = hvd.rank(), hvd.size()
    for dtype in (*FLOATS, torch.int16, torch.bool):
        got = hvd.allgather(made(rank, rank + 2, dtype))
        wanted = torch.cat([made(r, r + 2, dtype).cpu() for r in range(size)])
        same(got, wanted, f"allgather of {dtype}")
        same(
            hvd.broadcast(made(rank, 999, dtype), size - 1),
            made(size - 1, 999, dtype).cpu(),
            f"broadcast of {dtype}",
        )
    sent = torch.arange(size * 3, dtype=torch.float32).to(DEVICE) + 100 * rank
    got, splits = hvd.alltoall(sent, splits=torch.full((size,), 3, dtype=torch.int32))
    wanted = torch.cat([torch.arange(3 * rank, 3 * rank + 3) + 100.0 * r for r in range(size)])
    same(got, wanted, "alltoall")
    assert splits.tolist() == [3] * size
    many = [made(rank, count, torch.float32) for count in range(1, 300)]
    for got, wanted in zip(hvd.grouped_allreduce(many, op=hvd.Sum), range(1, 300)):
        same(got, everyone(wanted, torch.float32).sum(0), "grouped allreduce")


def streams() -> None:
    """A tensor that another stream still writes when it is submitted, many times, in one name."""
    side = torch.cuda.Stream() if DEVICE == "cuda" else None
    for _ in range(100):
        with torch.cuda.stream(side):
            tensor = torch.full((1 << 20,), float(hvd.rank()), device=DEVICE)
            tensor = tensor * 2 + 1
            total = hvd.allreduce(tensor, op=hvd.Sum, name="streams")
            check = (total == sum(2 * r + 1 for r in range(hvd.size()))).all()
        assert check.item(), "a sum was taken before its tensor was written"


def overlapping() -> None:
    """Sets of two neighbours each and the set of all, each rank beginning with another: all end."""
    rank, size = hvd.rank(), hvd.size()
    pairs = [sorted({r, (r + 1) % size}) for r in range(size if size > 2 else 0)]
    sets = [hvd.add_process_set(pair) for pair in pairs if len(pair) < size]
    mine = [s for s in [*sets, hvd.global_process_set] if s.included()]
    mine = mine[rank % len(mine) :] + mine[: rank % len(mine)]
    for step in range(50):
        handles = []
        for one in mine:
            name = f"overlapping {one.process_set_id} {step}"
            tensor = torch.ones(100_003, device=DEVICE)
            handles.append(hvd.allreduce_async(tensor, op=hvd.Sum, name=name, process_set=one))
        for one, handle in zip(mine, handles):
            assert (hvd.synchronize(handle) == one.size()).all().item()
    for one in sets:
        hvd.remove_process_set(one)


class ByDlpack:
    """A tensor that offers DLPack and nothing else."""

    def __init__(self, tensor: torch.Tensor) -> None:
        """Lends the memory of `tensor`."""
        self.tensor = tensor

    def __dlpack_device__(self) -> tuple[int, int]:
        """Where it is."""
        return self.tensor.__dlpack_device__()

    def __dlpack__(self, **asked: Any) -> Any:
        """Its memory."""
        return self.tensor.__dlpack__(**asked)


def compressed() -> None:
    """Codecs give the bits that they give of the same tensors on the CPU."""
    here = torch.linspace(-1, 1, 100_003) * (hvd.rank() + 1)
    compressions = hvd.Compression
    for codec in (compressions.int8, compressions.int4, compressions.onebit, compressions.topk):
        plain = codec(error_feedback=False)
        there = hvd.allreduce(here.to(DEVICE), name="compressed", compression=plain)
        assert torch.equal(there.cpu(), hvd.allreduce(here, name="compressed", compression=plain))
    before = compressions.state_dict()
    stochastic = compressions.int4(stochastic=True, seed=3)
    kept = (compressions.int8(), stochastic, compressions.onebit(), compressions.topk(ratio=0.05))
    for codec in kept:
        seen = []
        for device in (DEVICE, "cpu"):
            compressions.load_state_dict(before)
            steps = [hvd.allreduce(here.to(device), name="kept", compression=codec) for _ in "123"]
            seen.append([step.cpu() for step in steps] + [compressions.memory()])
        assert all(map(torch.equal, seen[0][:3], seen[1][:3])), f"{codec}: residuals differ"
        assert seen[0][3] == seen[1][3]


def other_libraries() -> None:
    """`ronde`'s own functions on tensors that they know by DLPack and the CUDA array interface."""
    size = ronde.size()
    for lend in (ByDlpack, lambda tensor: tensor):
        for _ in range(20):
            tensor = torch.full((100_003,), float(ronde.rank()), device=DEVICE) + 1
            ronde.allreduce(lend(tensor), op=ronde.Sum, out=lend(tensor))
            assert (tensor == size * (size + 1) / 2).all().item()
            made = torch.as_tensor(ronde.allgather(lend(tensor[:3].clone())), device=DEVICE)
            assert (made == size * (size + 1) / 2).all().item()


def training() -> None:
    """Steps of DistributedOptimizer leave all ranks with the same parameters."""
    torch.manual_seed(hvd.rank())
    model = torch.nn.Sequential(
        torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10)
    ).to(DEVICE)
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.1), named_parameters=model.named_parameters()
    )
    for _ in range(20):
        optimizer.zero_grad()
        model(torch.randn(32, 64, device=DEVICE)).pow(2).mean().backward()
        optimizer.step()
    flat = torch.cat([p.detach().flatten() for p in model.parameters()])
    all_ranks = hvd.allgather(flat[None])
    assert (all_ranks == all_ranks[0]).all(), "parameters differ between ranks"


def killed() -> None:
    """Rank 1 dies; the others hear of it by name, within seconds, and their device goes on."""
    tensor = torch.ones(1 << 24, device=DEVICE)
    hvd.allreduce(tensor, name="before")
    if hvd.rank() == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    start = time.monotonic()
    message = ""
    for step in range(1000):
        try:
            hvd.allreduce(tensor, name=f"step {step % 2}")
        except ronde.RankFailure as failure:
            message = str(failure)
            break
    assert "rank 1" in message, f"nobody said that rank 1 was gone, but {message!r}"
    assert time.monotonic() - start < 30
    if DEVICE == "cuda":
        torch.cuda.synchronize()
    print("KILLED-OK", flush=True)


def milliseconds(run: Callable[[], object]) -> float:
    """One run to the end of the device's work."""
    torch.cuda.synchronize()
    start = time.perf_counter()
    run()
    torch.cuda.synchronize()
    return (time.perf_counter() - start) * 1e3


def figures() -> None:
    """A fused allreduce of 16 and 256 MB against NCCL's own on one flat buffer, by turns."""
    torch.distributed.init_process_group("nccl", rank=hvd.rank(), world_size=hvd.size())
    for total in (16 << 20, 256 << 20):
        flat = torch.ones(total // 4, device=DEVICE)
        many = list(flat.clone().chunk(160))

        def fused(many: list[torch.Tensor] = many, total: int = total) -> None:
            hvd.grouped_allreduce_(many, op=hvd.Sum, name=f"figure {total}")

        def raw(flat: torch.Tensor = flat) -> None:
            torch.distributed.all_reduce(flat)

        times = [(milliseconds(fused), milliseconds(raw)) for _ in range(26)][5:]
        ronde_ms, nccl_ms = (sorted(side)[len(side) // 2] for side in zip(*times))
        row = {"figure": "fused allreduce", "bytes": total, "ranks": hvd.size()}
        if hvd.rank() == 0:
            print(json.dumps({**row, "ronde_ms": ronde_ms, "nccl_ms": nccl_ms}), flush=True)
    torch.distributed.destroy_process_group()


def main() -> None:
    """Runs what was asked for."""
    hvd.init()
    if DEVICE == "cuda":
        torch.cuda.set_device(hvd.local_rank() % torch.cuda.device_count())
    if "--kill" in sys.argv:
        return killed()
    if "--figures" in sys.argv:
        return figures()
    for case in (reductions, movement, streams, overlapping, compressed, other_libraries, training):
        case()
        if hvd.rank() == 0:
            print(f"ok {case.__name__}", flush=True)
    hvd.shutdown()


if __name__ == "__main__":
    main()
