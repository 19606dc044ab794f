"""8-bit floating types: of every pair of values, what torch's own rounding gives."""

from functools import reduce

import pytest
import ronde
import ronde.torch as hvd
import torch

NAMES = ("float8_e4m3fn", "float8_e5m2")
TYPES = [getattr(torch, name) for name in NAMES if hasattr(torch, name)]


def pairs(dtype):
    """The inputs of two ranks, which combine every value with every other."""
    values = torch.arange(256, dtype=torch.uint8)
    return values.repeat_interleave(256).view(dtype), values.repeat(256).view(dtype)


def held(dtype, rest):
    """Every rank's tensor, in fp32; ranks after the second hold `rest`."""
    pair = [tensor.float() for tensor in pairs(dtype)]
    return pair + [torch.full_like(pair[0], rest)] * (hvd.size() - 2)


def same(got, wanted):
    """True if the values are the same; all NaNs are equal."""
    a, b = got.float(), wanted.float()
    return bool(((a == b) | (a.isnan() & b.isnan())).all())


def rounded(values, dtype):
    """As torch rounds, but that what is too large for E4M3 is NaN: newer torch clamps it to 448."""
    if dtype == TYPES[0]:
        values = torch.where(values.abs() > 464, torch.full_like(values, float("nan")), values)
    return values.to(dtype)


def check(dtype, op, rest, combine):
    inputs = held(dtype, rest)
    own = (*pairs(dtype), rounded(inputs[-1], dtype))[min(hvd.rank(), 2)]
    got = hvd.allreduce(own, op=op)
    assert got.dtype == dtype
    assert same(got, rounded(combine(inputs), dtype)), (dtype, op)


def case_every_pair_of_float8_values_is_reduced_as_torch_rounds():
    n = hvd.size()
    power = 1 << (n - 1).bit_length()
    for dtype in TYPES:
        check(dtype, hvd.Sum, 0.0, lambda held: reduce(torch.add, held))
        check(dtype, hvd.Product, 1.0, lambda held: reduce(torch.mul, held))
        check(dtype, hvd.Min, 1.0, lambda held: reduce(torch.minimum, held))
        check(dtype, hvd.Max, 0.0, lambda held: reduce(torch.maximum, held))
        check(
            dtype,
            hvd.Average,
            0.0,
            lambda held: reduce(torch.add, [h / power for h in held]) * (power / n),
        )


def case_float8_tensors_move_bit_by_bit():
    for dtype in TYPES:
        mine = torch.arange(hvd.rank(), hvd.rank() + 250, dtype=torch.uint8).view(dtype)
        gathered = hvd.allgather(mine).view(torch.uint8)
        for r in range(hvd.size()):
            expected = torch.arange(r, r + 250, dtype=torch.uint8)
            assert torch.equal(gathered[250 * r : 250 * (r + 1)], expected)
        sent = hvd.broadcast(mine, root_rank=1).view(torch.uint8)
        assert torch.equal(sent, torch.arange(1, 251, dtype=torch.uint8))


def case_float8_cannot_be_compressed_and_that_is_said():
    for dtype in TYPES:
        with pytest.raises(ronde.Error, match="float8"):
            hvd.allreduce(torch.zeros(4).to(dtype), compression=hvd.Compression.int8)
