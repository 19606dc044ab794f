"""Every call of torch.distributed over the backend `ronde`, at any number of ranks.

Cases run in order, as one job.
"""

import datetime

import pytest
import ronde
import ronde.torch.distributed as rd
import torch
import torch.distributed as dist

DTYPES = [
    torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16,
    torch.float32, torch.float64, torch.bool, torch.complex64, torch.complex128,
    torch.uint16, torch.uint32, torch.uint64,
]  # fmt: skip
MOVED_ONLY = [torch.float8_e4m3fn]


def here():
    return dist.get_rank(), dist.get_world_size()


def case_a_group_is_made_and_knows_itself():
    dist.init_process_group("ronde", timeout=datetime.timedelta(seconds=30))
    rank, size = ronde.rank(), ronde.size()
    assert here() == (rank, size)
    assert dist.get_backend() == "ronde"
    world = dist.group.WORLD
    assert isinstance(world, rd.RondeProcessGroup)
    assert (world.rank(), world.size(), world.name()) == (rank, size, "ronde")
    assert dist.get_process_group_ranks(world) == list(range(size))
    assert world.group_desc == "default_pg"


def case_torchs_own_code_knows_a_groups_devices_and_names():
    world, own = dist.group.WORLD, dist.ProcessGroup
    # As the flight recorder of torch 2.15 asks, which records a group that has devices.
    assert own._device_types.__get__(world) == [torch.device("cpu")]
    assert own.group_name.__get__(world) == world.group_name
    assert own.group_desc.__get__(world) == "default_pg"
    assert (own.rank(world), own.size(world)) == here()
    if hasattr(torch._C._distributed_c10d, "FlightRecorderHook"):
        assert torch._C._distributed_c10d.FlightRecorderHook.attach(world, list(range(here()[1])))


def case_all_reduce_sums_every_dtype():
    rank, size = here()
    for dtype in DTYPES:
        tensor = (
            torch.ones(5).to(dtype) if dtype is torch.bool else torch.full((5,), rank + 1).to(dtype)
        )
        dist.all_reduce(tensor)
        total = 1 if dtype is torch.bool else size * (size + 1) // 2
        assert tensor.dtype == dtype
        assert torch.equal(tensor, torch.full((5,), total).to(dtype)), (dtype, tensor)
    pair = torch.tensor([complex(rank, 1)])
    dist.all_reduce(pair)
    assert pair.item() == complex(size * (size - 1) / 2, size)


def case_all_reduce_by_every_operation():
    rank, size = here()
    expected = {
        dist.ReduceOp.SUM: size * (size + 1) / 2,
        dist.ReduceOp.AVG: (size + 1) / 2,
        dist.ReduceOp.MIN: 1,
        dist.ReduceOp.MAX: size,
        dist.ReduceOp.PRODUCT: torch.arange(1, size + 1).prod().item(),
    }
    for op, value in expected.items():
        tensor = torch.full((3,), float(rank + 1))
        dist.all_reduce(tensor, op)
        assert tensor.tolist() == [value] * 3, (op, tensor)
    bits = {
        dist.ReduceOp.BAND: 0 if size > 2 else 1 & 2,
        dist.ReduceOp.BOR: 3,
        dist.ReduceOp.BXOR: None,
    }
    for op, value in bits.items():
        tensor = torch.tensor([rank + 1 if rank < 2 else 0])
        dist.all_reduce(tensor, op)
        assert tensor.item() == (3 if value is None else value), (op, tensor)
    tensor = torch.ones(2)
    dist.all_reduce(tensor, dist._make_nccl_premul_sum(0.5))
    assert tensor.tolist() == [size / 2] * 2


def case_a_result_never_gets_lost_in_other_memory():
    rank, _ = here()
    store = dist.distributed_c10d._get_default_store()
    for dtype in (torch.float32, torch.int32):
        tensor = torch.ones(1_000_000, dtype=dtype)
        if rank:
            store.wait([f"moved {dtype}"])  # the others wait for this rank's tensor
        work = dist.all_reduce(tensor, async_op=True)
        if not rank:
            tensor.data = torch.zeros(3)
            store.set(f"moved {dtype}", "")
            with pytest.raises(ValueError, match=r"shape \[3\] was given other memory"):
                work.wait()
        else:
            work.wait()


def case_tensors_without_order_or_elements():
    rank, size = here()
    spread = torch.full((3, 4), float(rank)).t()
    dist.all_reduce(spread)
    assert torch.equal(spread, torch.full((4, 3), size * (size - 1) / 2))
    empty = torch.ones(0, 3)
    dist.all_reduce(empty)
    outputs = [torch.ones(0, 3) for _ in range(size)]
    dist.all_gather(outputs, empty)
    number = torch.tensor(float(rank))
    dist.all_reduce(number)
    assert number.item() == size * (size - 1) / 2
    weight = torch.ones(2, requires_grad=True)
    with torch.no_grad():
        dist.all_reduce(weight)
    assert weight.tolist() == [size, size]


def case_reduce_changes_the_root_alone():
    rank, size = here()
    for root in range(size):
        tensor = torch.full((3,), float(rank))
        dist.reduce(tensor, root, dist.ReduceOp.SUM)
        assert tensor.tolist() == [size * (size - 1) / 2 if rank == root else rank] * 3


def case_broadcast_moves_every_dtype():
    rank, size = here()
    for dtype in [*DTYPES, *MOVED_ONLY]:
        tensor = torch.full((4,), 1.0 if rank == size - 1 else 0.0).to(dtype)
        dist.broadcast(tensor, size - 1)
        assert torch.equal(tensor.to(torch.float32), torch.ones(4)), (dtype, tensor)


def case_all_gather_in_all_its_forms():
    rank, size = here()
    expected = [torch.full((2, 3), float(r)) for r in range(size)]
    mine = expected[rank].clone()
    outputs = [torch.empty(2, 3) for _ in range(size)]
    dist.all_gather(outputs, mine)
    assert all(map(torch.equal, outputs, expected))
    together = torch.empty(size, 2, 3)
    dist.all_gather(list(together), mine)  # neighbours: filled without a copy
    assert torch.equal(together, torch.stack(expected))
    rows = torch.empty(2 * size, 3)
    dist.all_gather_into_tensor(rows, mine)
    assert torch.equal(rows, torch.cat(expected))
    spread = torch.empty(3, 2 * size).t()
    dist.all_gather_into_tensor(spread, mine)
    assert torch.equal(spread, torch.cat(expected))
    for dtype in [torch.complex64, torch.bool, torch.bfloat16, torch.uint16]:
        moved = torch.empty(size, dtype=dtype)
        dist.all_gather_into_tensor(moved, torch.tensor([1.0]).to(dtype))
        assert torch.equal(moved, torch.ones(size).to(dtype)), (dtype, moved)
    lists = [[torch.empty(2), torch.empty(1, dtype=torch.float32)] for _ in range(size)]
    dist.all_gather_coalesced(
        lists, [torch.full((2,), float(rank)), torch.full((1,), -float(rank))]
    )
    assert [[t[0].item() for t in tensors] for tensors in lists] == [[r, -r] for r in range(size)]


def case_gather_and_scatter():
    rank, size = here()
    for root in range(size):
        outputs = [torch.empty(3) for _ in range(size)] if rank == root else None
        dist.gather(torch.full((3,), float(rank)), outputs, dst=root)
        if rank == root:
            assert [t.tolist() for t in outputs] == [[r] * 3 for r in range(size)]
        inputs = [torch.full((2,), 10.0 * root + r) for r in range(size)] if rank == root else None
        output = torch.empty(2)
        dist.scatter(output, inputs, src=root)
        assert output.tolist() == [10.0 * root + rank] * 2


def case_reduce_scatter_in_all_its_forms():
    rank, size = here()
    inputs = [torch.full((2,), float(r + rank)) for r in range(size)]
    expected = [size * rank + size * (size - 1) / 2] * 2
    output = torch.empty(2)
    dist.reduce_scatter(output, inputs)
    assert output.tolist() == expected
    output.zero_()
    dist.reduce_scatter_tensor(output, torch.cat(inputs))
    assert output.tolist() == expected
    dist.reduce_scatter_tensor(output, torch.cat(inputs), op=dist.ReduceOp.AVG)
    assert output.tolist() == [value / size for value in expected]


def case_all_to_all_with_equal_and_unequal_parts():
    rank, size = here()
    output = torch.empty(size)
    dist.all_to_all_single(output, torch.arange(size) + 10.0 * rank)
    assert output.tolist() == [10.0 * r + rank for r in range(size)]
    # Rank r sends s + 1 rows to rank s.
    sends = [s + 1 for s in range(size)]
    rows = torch.full((sum(sends), 2), float(rank))
    output = torch.empty((rank + 1) * size, 2)
    dist.all_to_all_single(output, rows, [rank + 1] * size, sends)
    assert output[:, 0].tolist() == [float(r) for r in range(size) for _ in range(rank + 1)]
    inputs = [torch.full((rank + s,), complex(rank, s)) for s in range(size)]
    outputs = [torch.empty(r + rank, dtype=torch.complex64) for r in range(size)]
    dist.all_to_all(outputs, inputs)
    for r, tensor in enumerate(outputs):
        assert torch.equal(tensor, torch.full((r + rank,), complex(r, rank)))


def case_coalesced_calls_are_one_operation():
    rank, size = here()
    tensors = [torch.full((n,), float(rank)) for n in (1, 4)]
    with dist._coalescing_manager():
        for tensor in tensors:
            dist.all_reduce(tensor)
    assert [t[0].item() for t in tensors] == [size * (size - 1) / 2] * 2
    gathered = [torch.empty(size), torch.empty(2 * size, dtype=torch.int64)]
    with dist._coalescing_manager(async_ops=True) as manager:
        dist.all_gather_into_tensor(gathered[0], torch.full((1,), float(rank)))
        dist.all_gather_into_tensor(gathered[1], torch.full((2,), rank))
    manager.wait()
    assert gathered[0].tolist() == list(range(size))
    assert gathered[1].tolist() == [r for r in range(size) for _ in range(2)]
    parts = [torch.empty(1), torch.empty(2)]
    with dist._coalescing_manager():
        for part in parts:
            dist.reduce_scatter_tensor(part, torch.ones(part.numel() * size))
    assert [p[0].item() for p in parts] == [size, size]
    with dist._coalescing_manager(device=torch.device("cpu"), async_ops=True) as manager:
        dist.broadcast(tensors[0], 0)
        dist.broadcast(tensors[1], 0)
    manager.wait()


def case_messages_go_round_the_ring():
    rank, size = here()
    after, before = (rank + 1) % size, (rank - 1) % size
    for count in (1, 100_000):  # at once, and pulled by the receiver
        received = torch.empty(count)
        requests = [dist.isend(torch.full((count,), float(rank)), after, tag=3)]
        requests.append(dist.irecv(received, before, tag=3))
        for request in requests:
            request.wait()
        assert received[-1].item() == before
    operations = [
        dist.P2POp(dist.isend, torch.tensor([rank]), after),
        dist.P2POp(dist.irecv, torch.empty(1, dtype=torch.int64), before),
    ]
    for request in dist.batch_isend_irecv(operations):
        request.wait()
    assert operations[1].tensor.item() == before


def case_messages_from_any_rank():
    rank, size = here()
    if rank != 0:
        dist.send(torch.tensor([rank * 1.5]), 0, tag=9)
        return
    sources = set()
    for _ in range(size - 1):
        received = torch.empty(1)
        source = dist.recv(received, tag=9)
        assert received.item() == source * 1.5
        sources.add(source)
    assert sources == set(range(1, size))


def case_objects():
    rank, size = here()
    everything = [None] * size
    dist.all_gather_object(everything, {"rank": rank, "text": "x" * rank})
    assert everything == [{"rank": r, "text": "x" * r} for r in range(size)]
    chosen = [("from", size - 1)] if rank == size - 1 else [None]
    dist.broadcast_object_list(chosen, src=size - 1)
    assert chosen == [("from", size - 1)]
    mine = [None]
    dist.scatter_object_list(mine, [f"for {r}" for r in range(size)] if rank == 0 else None, src=0)
    assert mine == [f"for {rank}"]
    gathered = [None] * size if rank == 0 else None
    dist.gather_object(rank * 2, gathered, dst=0)
    assert rank != 0 or gathered == [r * 2 for r in range(size)]


def case_asynchronous_work_and_futures():
    rank, size = here()
    total = size * (size - 1) / 2
    tensors = [torch.full((3,), float(rank)) for _ in range(4)]
    works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
    doubled = works[0].get_future().then(lambda future: future.value()[0] * 2)
    for work in works[1:]:
        work.wait()
        assert work.is_completed()
        assert work.is_success()
        assert work.exception() is None
    assert doubled.wait().tolist() == [2 * total] * 3
    assert works[1].result()[0] is tensors[1]
    assert works[1].get_future().wait()[0].tolist() == [total] * 3  # asked for when all is over


def case_sparse_gradients_are_summed():
    rank, size = here()
    tensor = torch.sparse_coo_tensor([[0, rank + 1]], [[1.0, 2.0], [3.0, 4.0]], (size + 1, 2))
    dist.all_reduce(tensor)
    expected = torch.zeros(size + 1, 2)
    expected[0] = torch.tensor([1.0, 2.0]) * size
    expected[1:] = torch.tensor([3.0, 4.0])
    assert torch.equal(tensor.to_dense(), expected)


def case_groups_of_some_ranks():
    rank, size = here()
    first = dist.new_group([0, size - 1])
    again = dist.new_group([0, size - 1])  # the same ranks, another group
    alone = dist.new_group([rank], use_local_synchronization=True)
    members = [0, size - 1]
    tensor = torch.ones(2)
    if rank in members:
        dist.all_reduce(tensor, group=first)
        received = torch.empty(1)
        peer = members[1 - members.index(rank)]
        request = dist.irecv(received, peer, group=again, tag=1)
        dist.send(torch.tensor([float(rank)]), peer, group=again, tag=1)
        request.wait()
        assert received.item() == peer
        dist.broadcast(tensor, size - 1, group=again)
        if rank == members[1]:
            assert dist.get_group_rank(first, rank) == 1
    assert tensor.tolist() == ([2, 2] if rank in members else [1, 1])
    dist.all_reduce(tensor, group=alone)
    halves, _ = dist.new_subgroups(1)
    assert halves.size() == 1
    for group in (first, again, alone):
        if group is not dist.GroupMember.NON_GROUP_MEMBER:
            dist.destroy_process_group(group)
    dist.barrier()


def case_groups_can_be_made_again_after_the_end():
    server = dist.distributed_c10d._get_default_store()  # rank 0's, which env:// uses again
    for _ in range(2):
        dist.destroy_process_group()
        assert not dist.is_initialized()
        dist.init_process_group("ronde", timeout=datetime.timedelta(seconds=60))
        tensor = torch.ones(1)
        dist.all_reduce(tensor)
        assert tensor.item() == dist.get_world_size()
    del server


def case_the_end_leaves_a_job_that_was_there_before():
    dist.barrier()
    dist.destroy_process_group()
    assert ronde.is_initialized()
    ronde.barrier()
