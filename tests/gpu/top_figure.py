"""top-k's kernels against torch.topk on the same tensor, by turns: prints one figure as JSON.

python tests/gpu/top_figure.py build/release/tests/gpu/libgpu_top.so
"""

from __future__ import annotations

import ctypes
import json
import sys
from collections.abc import Callable

import torch

COUNT = 25_000_000
CHOSEN = COUNT // 100
TURNS = 21


def device_ms(run: Callable[[], object], launches: int = 5) -> float:
    """Device time of one of several runs, in ms."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(launches):
        run()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) / launches


def main() -> None:
    """Compares what both choose, then how long they take."""
    library = ctypes.CDLL(sys.argv[1])
    library.ronde_gpu_top_scratch.restype = ctypes.c_size_t
    library.ronde_gpu_top_scratch.argtypes = [ctypes.c_size_t]
    library.ronde_gpu_top.argtypes = [
        *[ctypes.c_void_p] * 2,
        *[ctypes.c_size_t] * 2,
        *[ctypes.c_void_p] * 4,
    ]
    torch.manual_seed(1)
    values = torch.randn(COUNT, device="cuda")
    left, magnitudes = torch.empty_like(values), values.abs()
    indices = torch.empty(CHOSEN, dtype=torch.int32, device="cuda")
    chosen = torch.empty(CHOSEN, device="cuda")
    scratch = torch.empty(library.ronde_gpu_top_scratch(COUNT), dtype=torch.uint8, device="cuda")
    tensors = [tensor.data_ptr() for tensor in (indices, chosen, scratch)]

    def ours() -> None:
        stream = torch.cuda.current_stream().cuda_stream
        code = library.ronde_gpu_top(
            values.data_ptr(), left.data_ptr(), COUNT, CHOSEN, *tensors, stream
        )
        assert code == 0, f"CUDA's error {code}"

    def theirs() -> torch.Tensor:
        return torch.topk(magnitudes, CHOSEN, sorted=False).values

    ours()
    assert torch.equal(chosen.abs().sort().values, theirs().sort().values)
    assert torch.equal(values[indices.long()], chosen)
    assert torch.equal(left.count_nonzero(), values.count_nonzero() - CHOSEN)
    times = [(device_ms(ours), device_ms(theirs)) for _ in range(TURNS + 3)][3:]
    ronde_ms, torch_ms = (sorted(side)[TURNS // 2] for side in zip(*times))
    row = {"figure": "top-k", "elements": COUNT, "chosen": CHOSEN}
    row |= {"ronde_ms": ronde_ms, "torch_ms": torch_ms, "times_faster": torch_ms / ronde_ms}
    print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
