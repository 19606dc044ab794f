"""Cases for element types of NumPy's arrays."""

import numpy as np
import pytest
import ronde


def case_complex_numbers_are_summed_averaged_and_moved():
    rank, size = ronde.rank(), ronde.size()
    for dtype in ("complex64", "complex128"):
        for shape in [(), (0,), (3,), (2, 3)]:
            mine = np.full(shape, rank + 1 + 2j * rank, dtype)
            total = sum(r + 1 + 2j * r for r in range(size))
            for op, wanted in ((ronde.Sum, total), (ronde.Average, total / size)):
                result = ronde.allreduce(mine, op=op)
                assert (result.dtype, result.shape) == (dtype, shape)
                np.testing.assert_allclose(result, np.full(shape, wanted, dtype), rtol=1e-6)
        rows = ronde.allgather(np.full((1, 2), rank + 1j, dtype))
        assert rows.tolist() == [[r + 1j] * 2 for r in range(size)]
        root = ronde.broadcast(np.full(2, rank + 3j, dtype), 1)
        assert root.tolist() == [1 + 3j] * 2
        assert ronde.allgather(np.zeros((0, 2), dtype)).shape == (0, 2)
        part = ronde.reduce_scatter(np.ones((size, 2), dtype) * 1j, op=ronde.Sum)
        assert part.tolist() == [[size * 1j] * 2]
        received, counts = ronde.alltoall(np.full(size, rank + 1j, dtype))
        assert received.tolist() == [r + 1j for r in range(size)]
        assert counts == [1] * size
        out = np.zeros(3, dtype)
        assert ronde.allreduce(np.full(3, 1j, dtype), op=ronde.Sum, out=out) is out
        assert out.tolist() == [size * 1j] * 3
        out = np.zeros(2, dtype)
        ronde.scatter(np.arange(2 * size).astype(dtype), out, 0)
        assert out.tolist() == [2 * rank, 2 * rank + 1]


def case_complex_numbers_have_no_order_and_no_product():
    mine = np.ones(3, np.complex64)
    for op in (ronde.Min, ronde.Max, ronde.Product, ronde.BitAnd, ronde.Adasum):
        with pytest.raises(
            ronde.InvalidArgumentError, match=r'allreduce "z".*: input has complex.*sum, average'
        ):
            ronde.allreduce(mine, "z", op)
    for wrong in (np.zeros((3, 2), np.float32), np.zeros(3, np.complex128), np.zeros(3)):
        with pytest.raises(ronde.InvalidArgumentError, match="dtype complex64"):
            ronde.allreduce(mine, out=wrong)
    with pytest.raises(ronde.InvalidArgumentError, match="not supported"):
        ronde.allreduce(np.ones(3, ">c8"))
    assert ronde.allreduce(mine, op=ronde.Sum).tolist() == [ronde.size()] * 3


def case_complex_numbers_and_pairs_of_real_ones_do_not_match():
    for dtype, real in (("complex64", "float32"), ("complex128", "float64")):
        mine = np.ones((3, 2), real) if ronde.rank() else np.ones(3, dtype)
        for call in (ronde.allreduce, ronde.allgather, lambda array: ronde.broadcast(array, 1)):
            with pytest.raises(ronde.MismatchError, match=r"call with complex .*call with real"):
                call(mine)


def case_unsigned_integers_of_every_width_use_all_their_bits():
    rank, size = ronde.rank(), ronde.size()
    for dtype in (np.uint8, np.uint16, np.uint32, np.uint64):
        most, name = np.iinfo(dtype).max, np.dtype(dtype).name
        ends = np.array([0, most - rank, rank], dtype)
        for op, wanted in (
            (ronde.Sum, [0, (size * most - size * (size - 1) // 2) & most, size * (size - 1) // 2]),
            (ronde.Min, [0, most - size + 1, 0]),
            (ronde.Max, [0, most, size - 1]),
        ):
            assert ronde.allreduce(ends, op=op).tolist() == wanted, name
        assert ronde.allreduce(np.array([1 << rank], dtype), op=ronde.BitXor)[0] == (1 << size) - 1
        product = np.prod([most - r for r in range(size)], dtype=object) & most
        assert ronde.allreduce(np.array(most - rank, dtype), op=ronde.Product) == product
        half = np.array([most // size - rank, 7], dtype)  # the sum fits
        wanted = [sum(most // size - r for r in range(size)) // size, 7]
        assert ronde.allreduce(half).tolist() == wanted, name
        rows = np.full((size, 2), most - rank, dtype)
        assert ronde.allgather(rows[:1]).tolist() == [[most - r] * 2 for r in range(size)]
        assert ronde.reduce_scatter(rows, op=ronde.Max).tolist() == [[most] * 2]
        assert ronde.alltoall(rows)[0].tolist() == [[most - r] * 2 for r in range(size)]
        assert ronde.broadcast(rows, 1).max() == most - 1
