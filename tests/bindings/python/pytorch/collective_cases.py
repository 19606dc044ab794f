"""Cases for ronde.torch."""

import threading
import time

import numpy as np
import pytest
import ronde
import ronde.torch as hvd
import torch

FLOATING = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
NAMES = [f"{kind}{8 << size}" for kind in ("int", "uint") for size in range(4)]
WHOLE = [getattr(torch, name) for name in NAMES if hasattr(torch, name)]  # uint16 since 2.3


def mine(*shape, dtype=torch.float32, rank=None):
    """Small whole numbers that differ between ranks."""
    count = torch.Size(shape).numel()
    values = torch.arange(count) % 5 + 1 + (hvd.rank() if rank is None else rank)
    return values.reshape(shape).to(dtype)


def total(*shape, dtype=torch.float32):
    wide = [mine(*shape, dtype=torch.float64, rank=r) for r in range(hvd.size())]
    return sum(wide).to(dtype)  # torch itself does not add uint16


def case_a_float32_sum_is_scaled_by_a_float32_as_horovods_tests_ask():
    values = torch.arange(-144, 145, dtype=torch.float32)
    factor = 0.1915194503788923  # not a float32
    scaled = hvd.allreduce(values, op=hvd.Sum, postscale_factor=factor)
    assert torch.equal(scaled, values * hvd.size() * torch.tensor(factor))
    halves = values.half()
    scaled = hvd.allreduce(halves, op=hvd.Sum, postscale_factor=factor)
    assert torch.equal(scaled, (halves.float() * hvd.size() * torch.tensor(factor)).half())


def case_sums_are_right_in_every_type_sync_async_and_in_place():
    for dtype in FLOATING + WHOLE:
        for shape in [(), (0,), (17,), (3, 4)]:
            expected = total(*shape, dtype=dtype)
            tensor = mine(*shape, dtype=dtype)
            assert torch.equal(hvd.allreduce(tensor, op=hvd.Sum), expected)
            assert torch.equal(hvd.synchronize(hvd.allreduce_async(tensor, op=hvd.Sum)), expected)
            assert torch.equal(tensor, mine(*shape, dtype=dtype)), "the input was changed"
            assert hvd.allreduce_(tensor, op=hvd.Sum) is tensor
            assert torch.equal(tensor, expected)
            handle = hvd.allreduce_async_(other := mine(*shape, dtype=dtype), op=hvd.Sum)
            assert hvd.synchronize(handle) is other
            assert torch.equal(other, expected)


def case_average_is_the_default_and_the_old_argument_works():
    tensor = torch.full((4,), float(hvd.rank()))
    mean = (hvd.size() - 1) / 2
    assert torch.allclose(hvd.allreduce(tensor), torch.full((4,), mean))
    assert torch.allclose(hvd.allreduce(tensor, average=True), torch.full((4,), mean))
    for no in (False, 0, np.bool_(False)):
        total = torch.full((4,), mean * hvd.size())
        assert torch.allclose(hvd.allreduce(tensor, average=no), total)
    with pytest.raises(ValueError, match="not both"):
        hvd.allreduce(tensor, average=True, op=hvd.Sum)


def case_min_max_and_product():
    tensor = mine(6)
    ranks = [mine(6, rank=r) for r in range(hvd.size())]
    assert torch.equal(hvd.allreduce(tensor, op=hvd.Min), ranks[0])
    assert torch.equal(hvd.allreduce(tensor, op=hvd.Max), ranks[-1])
    assert torch.equal(hvd.allreduce(tensor, op=hvd.Product), torch.stack(ranks).prod(dim=0))


def case_tensors_that_are_not_contiguous_are_reduced_in_place():
    tensor = mine(4, 6).t()
    assert not tensor.is_contiguous()
    hvd.allreduce_(tensor, op=hvd.Sum)
    assert torch.equal(tensor, total(4, 6).t())


def case_contiguous_tensors_are_used_without_a_copy():
    tensor = mine(8)
    address = tensor.data_ptr()
    assert hvd.allreduce_(tensor, op=hvd.Sum).data_ptr() == address


def case_fp16_compression_comes_back_in_the_tensors_type():
    result = hvd.allreduce(mine(9), op=hvd.Sum, compression=hvd.Compression.fp16)
    assert result.dtype == torch.float32
    assert torch.equal(result, total(9))
    whole = hvd.allreduce(mine(9, dtype=torch.int32), op=hvd.Sum, compression=hvd.Compression.fp16)
    assert whole.dtype == torch.int32


def case_groups_are_reduced_together():
    tensors = [mine(3), mine(2, 2, dtype=torch.float64), mine(5)]
    for result, tensor in zip(hvd.grouped_allreduce(tensors, op=hvd.Sum), tensors):
        assert torch.equal(result, total(*tensor.shape, dtype=tensor.dtype))
    handle = hvd.grouped_allreduce_async_(tensors, name="group", op=hvd.Sum)
    assert hvd.synchronize(handle)[1] is tensors[1]
    assert torch.equal(tensors[1], total(2, 2, dtype=torch.float64))


def case_allgather_joins_uneven_rows_of_every_type():
    for dtype in [*FLOATING, *WHOLE, torch.bool]:
        rows = torch.full((hvd.rank() + 1, 2), hvd.rank()).to(dtype)
        expected = torch.cat([torch.full((r + 1, 2), r).to(dtype) for r in range(hvd.size())])
        assert torch.equal(hvd.allgather(rows), expected)
    assert hvd.allgather(torch.empty(0, 3)).shape == (0, 3)


def case_broadcast_with_and_without_a_copy():
    for root in range(hvd.size()):
        tensor = mine(3, 2)
        result = hvd.broadcast(tensor, root)
        assert torch.equal(result, mine(3, 2, rank=root))
        assert torch.equal(tensor, mine(3, 2))
        assert hvd.broadcast_(tensor, root) is tensor
        assert torch.equal(tensor, mine(3, 2, rank=root))


def case_reducescatter_gives_the_first_ranks_one_row_more():
    rows = 2 * hvd.size() + 1
    result = hvd.reducescatter(mine(rows, 3), op=hvd.Sum)
    begin = 2 * hvd.rank() + min(hvd.rank(), 1)
    assert torch.equal(result, total(rows, 3)[begin : begin + len(result)])
    assert len(result) == (3 if hvd.rank() == 0 else 2)
    assert torch.allclose(hvd.reducescatter(mine(rows, 3)) * hvd.size(), result)
    with pytest.raises(ValueError):  # noqa: PT011
        hvd.reducescatter(torch.tensor(1.0))


def case_alltoall_returns_the_received_splits_when_given_splits():
    size, rank = hvd.size(), hvd.rank()
    splits = [(rank + r) % 3 for r in range(size)]
    rows = torch.cat([torch.full((n, 2), 10 * rank + r) for r, n in enumerate(splits)])
    for given in (splits, torch.tensor(splits)):
        output, received = hvd.alltoall(rows, splits=given)
        assert received.tolist() == [(r + rank) % 3 for r in range(size)]
        assert received.dtype == torch.int32
        expected = [torch.full((n, 2), 10 * r + rank) for r, n in enumerate(received.tolist())]
        assert torch.equal(output, torch.cat(expected))
    even = hvd.alltoall(torch.arange(size))
    assert even.tolist() == [rank] * size
    with pytest.raises(ValueError, match="whole numbers"):
        hvd.alltoall(rows, splits=[0.5] * size)


def case_complex_numbers_travel_as_pairs():
    for dtype in (torch.complex64, torch.complex128):
        for shape in [(), (0,), (5,), (2, 3)]:
            tensor = torch.complex(mine(*shape).double(), -mine(*shape).double()).to(dtype)
            expected = torch.complex(total(*shape).double(), -total(*shape).double()).to(dtype)
            assert torch.equal(hvd.allreduce(tensor, op=hvd.Sum), expected)
            assert torch.allclose(hvd.allreduce(tensor) * hvd.size(), expected)
            assert torch.equal(hvd.broadcast(tensor, 0).real, mine(*shape, rank=0).to(tensor.real))
            joined = hvd.allgather(tensor.reshape(-1, *shape[1:]))
            assert joined.dtype == dtype
            assert joined.shape == (hvd.size() * (shape[0] if shape else 1), *shape[1:])
            conjugate = hvd.allreduce(tensor.conj(), op=hvd.Sum)
            assert torch.equal(conjugate, expected.conj().resolve_conj())
            assert hvd.allreduce_(tensor, op=hvd.Sum) is tensor
            assert torch.equal(tensor, expected)
    rows = torch.full((hvd.size(), 2), 1j * hvd.rank())
    assert torch.equal(hvd.alltoall(rows)[:, 0].imag, torch.arange(float(hvd.size())))
    assert hvd.reducescatter(rows, op=hvd.Sum).shape == (1, 2)


def case_tensors_that_cannot_be_written_to_are_value_errors():
    watched = torch.ones(3, requires_grad=True)
    for tensor in (watched, watched * 2):
        with pytest.raises(ValueError, match="requires grad"):
            hvd.allreduce_(tensor)
        with pytest.raises(ValueError, match="requires grad"):
            hvd.broadcast_async_(tensor, 0)
    with torch.no_grad():
        assert hvd.allreduce_(watched, op=hvd.Sum)[0] == hvd.size()
    with pytest.raises(ValueError, match="expanded"):
        hvd.grouped_allreduce_([torch.ones(2), torch.ones(1).expand(3)])
    assert hvd.allreduce(torch.ones(1).expand(3), op=hvd.Sum).tolist() == [hvd.size()] * 3


def case_a_name_in_flight_twice_is_a_value_error_at_the_call():
    if hvd.rank() == 0:
        hvd.allreduce_async(torch.ones(2), name="twice")  # goes on without its handle
        for start in (hvd.allreduce_async, hvd.allreduce_async_, hvd.allgather_async):
            with pytest.raises(ValueError, match="twice"):
                start(torch.ones(2), name="twice")
    hvd.barrier()
    if hvd.rank() != 0:
        assert hvd.allreduce(torch.ones(2), name="twice").tolist() == [1.0, 1.0]
    hvd.barrier()


def case_poll_turns_true():
    handle = hvd.allreduce_async(torch.ones(3), op=hvd.Sum)
    while not hvd.poll(handle):
        pass
    assert hvd.synchronize(handle).tolist() == [hvd.size()] * 3
    assert hvd.synchronize(handle) is hvd.synchronize(handle)


def case_wrong_tensors_are_value_errors():
    with pytest.raises(ValueError, match="complex64 can be summed"):
        hvd.allreduce(torch.ones(2, dtype=torch.complex64), op=hvd.Max)
    with pytest.raises(ValueError, match="not supported"):
        hvd.allreduce(torch.ones(2).to(torch.complex32))
    with pytest.raises(ValueError, match="dense"):
        hvd.allreduce_(torch.eye(3).to_sparse())
    with pytest.raises(ValueError, match="meta"):
        hvd.allreduce(torch.ones(2, device="meta"))
    with pytest.raises(ValueError, match=r"torch\.Tensor"):
        hvd.allreduce_([1.0])


def case_a_mismatch_is_a_horovod_internal_error():
    with pytest.raises(hvd.HorovodInternalError, match="mismatch"):
        hvd.allreduce(torch.ones(2 + hvd.rank()), name="mismatch")
    assert issubclass(hvd.HorovodInternalError, RuntimeError)
    hvd.barrier()


def case_what_was_built_can_be_asked():
    for ask in (hvd.mpi_built, hvd.gloo_built, hvd.cuda_built, hvd.rocm_built, hvd.mpi_enabled):
        assert ask() in (True, False)
    assert hvd.nccl_built() in (0, 1)
    assert hvd.is_homogeneous()
    assert hvd.is_initialized()
    assert hvd.local_size() == hvd.size()
    assert (hvd.cross_rank(), hvd.cross_size()) == (0, 1)


def case_other_threads_run_while_one_waits():
    # Rank 1 comes only once rank 0's second thread has called it: without the GIL, never.
    def call():
        time.sleep(0.2)
        ronde.send(np.ones(1), 1, tag=5)

    if hvd.rank() == 0:
        threading.Thread(target=call).start()
    elif hvd.rank() == 1:
        ronde.recv(np.ones(1), 0, tag=5)
    assert hvd.allreduce(torch.ones(1), name="late", op=hvd.Sum).item() == hvd.size()


def case_averages_of_integers_are_rounded_towards_zero_and_do_not_overflow():
    size = hvd.size()
    for dtype in (torch.int8, torch.int32, torch.int64):
        total = torch.tensor([-7, 7, -size, 0], dtype=dtype)
        mine = total if hvd.rank() == 0 else torch.zeros_like(total)
        expected = [-(7 // size), 7 // size, -1, 0]
        assert hvd.allreduce(mine).tolist() == expected
        assert hvd.grouped_allreduce([mine, mine])[1].tolist() == expected
        assert hvd.synchronize(hvd.allreduce_async_(mine.clone())).tolist() == expected
        rows = mine.repeat(size, 1)
        assert hvd.reducescatter(rows).tolist() == [expected]
    whole = torch.full((2,), -3 if hvd.rank() == 0 else 0)
    mixed = hvd.grouped_allreduce([whole, torch.ones(2), torch.ones(1, dtype=torch.bool)])
    assert mixed[0].tolist() == [-(3 // size)] * 2
    assert mixed[1].tolist() == [1.0, 1.0]
    assert mixed[2].tolist() == [True]
    for dtype in (torch.int8, torch.uint8, torch.int16):
        ends = torch.tensor([torch.iinfo(dtype).min, torch.iinfo(dtype).max], dtype=dtype)
        assert torch.equal(hvd.allreduce(ends), ends)


def case_a_name_used_again_at_once_is_an_error_however_fast_the_others_are():
    for _ in range(20):
        hvd.allreduce_async(torch.ones(3), name="again")  # nobody waits for it
        with pytest.raises(ValueError, match="while it was in flight"):
            hvd.allreduce_async(torch.ones(3), name="again")
        hvd.barrier()
        time.sleep(0.03)
    for _ in range(20):
        hvd.synchronize(hvd.allreduce_async(torch.ones(3), name="again"))
        handle = hvd.allreduce_async(torch.ones(3), name="again")
        while not hvd.poll(handle):
            time.sleep(0.001)


def case_a_tensor_that_torch_negates_lazily_is_reduced_as_it_reads():
    negated = torch._neg_view(torch.ones(2))
    assert hvd.allreduce(negated, op=hvd.Sum).tolist() == [-float(hvd.size())] * 2
    assert hvd.allreduce_async(negated, op=hvd.Sum).wait().tolist() == [-float(hvd.size())] * 2
    assert hvd.broadcast(negated, 0).tolist() == [-1.0, -1.0]


def case_an_average_of_integers_does_not_match_a_sum():
    """They did, as averages of integers were submitted as sums."""
    op = hvd.Average if hvd.rank() == 0 else hvd.Sum
    with pytest.raises(ronde.MismatchError, match=r"(?i)average"):
        hvd.allreduce(torch.ones(3, dtype=torch.int32), name="integers", op=op)
    uneven = torch.tensor([-1 - hvd.rank(), 1 + hvd.rank()])
    sums = hvd.allreduce(uneven, op=hvd.Sum)
    assert torch.equal(hvd.allreduce(uneven), torch.div(sums, hvd.size(), rounding_mode="trunc"))


def case_a_result_never_gets_lost_in_other_memory():
    def given_other_memory(start, expected):
        tensor = torch.full((1_000_000,), float(hvd.rank()))
        if hvd.rank():
            hvd.barrier()  # the others wait for this rank's tensor
        handle = start(tensor)
        if not hvd.rank():
            tensor.data = torch.zeros(3)
            torch.full((1_000_000,), 7.0)  # may be put where the first one was
            hvd.barrier()
            with pytest.raises(ValueError, match=r"shape \[3\] was given other memory"):
                hvd.synchronize(handle)
        else:
            assert torch.equal(hvd.synchronize(handle)[:2], torch.full((2,), expected))

    total = sum(range(hvd.size()))
    given_other_memory(lambda t: hvd.allreduce_async_(t, name="moved", op=hvd.Sum), total)
    given_other_memory(lambda t: hvd.broadcast_async_(t, 0, name="moved"), 0.0)


def case_an_input_that_is_given_other_memory_is_sent_as_it_was():
    tensor = torch.full((1_000_000,), float(hvd.rank()))
    if hvd.rank():
        hvd.barrier()
    handles = [
        hvd.allreduce_async(tensor, name="input", op=hvd.Sum),
        hvd.allgather_async(tensor[:500_000], name="rows"),
    ]
    tensor.data = torch.zeros(3)
    if not hvd.rank():
        hvd.barrier()
    total, rows = map(hvd.synchronize, handles)
    assert total.eq(sum(range(hvd.size()))).all()
    assert rows.view(hvd.size(), -1)[:, -1].tolist() == list(range(hvd.size()))
