"""Cases for torch tensors that cannot be written as asked."""

import pytest
import ronde
import ronde.torch as hvd
import torch


def in_place(tensor):
    """Every call that writes to the caller's tensor, by name."""
    return {
        "allreduce_": lambda: hvd.allreduce_(tensor, op=hvd.Sum),
        "allreduce_async_": lambda: hvd.allreduce_async_(tensor, op=hvd.Sum).wait(),
        "grouped_allreduce_": lambda: hvd.grouped_allreduce_([tensor], op=hvd.Sum),
        "broadcast_": lambda: hvd.broadcast_(tensor, 0),
        "broadcast_async_": lambda: hvd.broadcast_async_(tensor, 0).wait(),
    }


def refused(tensor, match):
    for call in in_place(tensor).values():
        with pytest.raises(ronde.InvalidArgumentError, match=match):
            call()


def case_tensors_that_cannot_be_written_in_place_are_refused_and_stay():
    memory = torch.arange(12, dtype=torch.float32)
    before = memory.clone()
    refused(memory[:1].expand(4), "expanded")
    refused(torch.as_strided(memory, (3, 3), (1, 1)), "one place")
    refused(torch.as_strided(memory, (3, 4), (3, 1)), "one place")
    refused(memory.clone().requires_grad_(), "requires grad")
    refused(torch.ones(2, 2).to_sparse(), "dense")
    refused(torch.ones(2, device="meta"), "meta")
    refused([1.0, 2.0], r"torch\.Tensor")
    assert torch.equal(memory, before)
    hvd.allreduce_(torch.as_strided(memory, (2, 3), (6, 2)), op=hvd.Sum)
    assert memory[::2].tolist() == [hvd.size() * value for value in before[::2].tolist()]
    assert memory[1::2].tolist() == before[1::2].tolist()


def case_tensors_of_a_group_share_no_memory():
    memory = torch.ones(6, 4)
    wrong = [
        [memory[:4], memory[3:]],
        [memory, memory],
        [memory[:, :3], memory[:, 2:]],
        [memory[:, :2], memory[2]],
    ]
    for tensors in wrong:
        with pytest.raises(ronde.InvalidArgumentError, match=r"overlaps|share memory"):
            hvd.grouped_allreduce_(tensors, op=hvd.Sum)
    assert torch.equal(memory, torch.ones(6, 4))
    hvd.grouped_allreduce_([memory[:, :2], memory[:, 2:]], op=hvd.Sum)
    assert torch.equal(memory, torch.full((6, 4), float(hvd.size())))


def case_a_tensor_whose_memory_was_freed_is_an_error():
    tensor = torch.ones(1000)
    tensor.untyped_storage().resize_(0)
    for call in [*in_place(tensor).values(), lambda: hvd.allgather(tensor)]:
        with pytest.raises(ronde.InvalidArgumentError, match="null address"):
            call()
    assert hvd.allreduce(torch.ones(2), op=hvd.Sum).tolist() == [hvd.size()] * 2


def case_an_input_that_is_resized_in_flight_is_an_error():
    calls = {
        "allreduce": lambda tensor: hvd.allreduce_async(tensor, op=hvd.Sum, name="late"),
        "grouped": lambda tensor: hvd.grouped_allreduce_async([tensor], op=hvd.Sum, name="late"),
        "broadcast": lambda tensor: hvd.broadcast_async(tensor, 1, name="late"),
        "allgather": lambda tensor: hvd.allgather_async(tensor, name="late"),
    }
    for call in calls.values():
        tensor = torch.ones(8)
        if hvd.rank() == 0:
            handle = call(tensor)
            tensor.resize_(1000)
        ronde.barrier()  # the others submit only now
        if hvd.rank() == 0:
            for _ in range(2):
                with pytest.raises(ronde.InvalidArgumentError, match="resize_"):
                    hvd.synchronize(handle)
        else:
            hvd.synchronize(call(tensor))
