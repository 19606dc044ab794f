"""What goes wrong in torch.distributed over the backend `ronde`, and how it is told.

Cases run in order, as one job.
"""

import datetime
import inspect

import pytest
import ronde
import ronde.torch.distributed as rd
import torch
import torch.distributed as dist


def here():
    return dist.get_rank(), dist.get_world_size()


def case_errors_start():
    dist.init_process_group("ronde", timeout=datetime.timedelta(seconds=30))


def case_reductions_that_make_no_sense_are_refused():
    with pytest.raises(ronde.InvalidArgumentError, match="complex"):
        dist.group.WORLD.allreduce(
            [torch.ones(1, dtype=torch.complex64)], options(dist.ReduceOp.MAX)
        )
    with pytest.raises(ronde.InvalidArgumentError, match="float8"):
        dist.all_reduce(torch.ones(1).to(torch.float8_e4m3fnuz))
    with pytest.raises(ronde.InvalidArgumentError, match="meta"):
        dist.all_reduce(torch.ones(1, device="meta"))


def case_a_root_or_peer_outside_the_group_is_named():
    for call in (
        lambda: dist.broadcast(torch.ones(3), src=7),
        lambda: dist.reduce(torch.ones(3), dst=7),
        lambda: dist.send(torch.ones(3), dst=7),
        lambda: dist.recv(torch.ones(3), src=7),
    ):
        with pytest.raises(ronde.InvalidArgumentError, match="rank 7 is not in the process group"):
            call()


def options(op):
    made = dist.AllreduceOptions()
    made.reduceOp = op
    return made


def case_all_to_all_whose_sizes_disagree_is_an_error():
    rank, size = here()
    sends = [1] * size
    wanted = [1] * size if rank != 0 else [2] + [1] * (size - 1)
    output = torch.empty(sum(wanted))
    if rank == 0:
        with pytest.raises(ronde.MismatchError, match="rank 0 sent 1 elements"):
            dist.all_to_all_single(output, torch.ones(size), wanted, sends)
    else:
        dist.all_to_all_single(output, torch.ones(size), wanted, sends)


def case_tensors_that_the_root_refuses_fail_the_call_on_all_ranks_at_once():
    rank, size = here()
    wrong = {
        "gather": [
            [torch.ones(2)] * size,
            [torch.ones(3)] * (size - 1) + [torch.ones(3, dtype=torch.int32)],
            [torch.ones(3)] * size,  # one place for all
            [torch.ones(3) for _ in range(size + 1)],
        ],
        "scatter": [
            [torch.ones(2)] * size,
            [torch.ones(3, dtype=torch.float64)] * size,
            [torch.ones(3)] * (size + 1),
        ],
    }
    for root in (0, size - 1):
        for call, lists in wrong.items():
            for many in lists:
                expected = ronde.InvalidArgumentError if rank == root else ronde.MismatchError
                said = "" if rank == root else f"in place of {call}, whose tensors it refused: "
                tensor = torch.ones(3)
                with pytest.raises(expected, match=said):
                    of_root(call, root, tensor, many)
                total = torch.ones(1)
                dist.all_reduce(total)  # the next calls meet
                assert total.item() == size


def of_root(call, root, tensor, many):
    """The group's gather or scatter, without torch's own checks of the root's list."""
    given = [many] if dist.get_rank() == root else []
    if call == "gather":
        options, arguments = dist.GatherOptions(), (given, [tensor])
    else:
        options, arguments = dist.ScatterOptions(), ([tensor], given)
    options.rootRank = root
    getattr(dist.group.WORLD, call)(*arguments, options).wait()


def case_a_message_of_another_length_is_an_error():
    rank, _ = here()
    if rank == 1:
        dist.send(torch.ones(2), 0)
        dist.send(torch.ones(4), 0)
    elif rank == 0:
        with pytest.raises(ronde.MismatchError, match="sent 8 bytes"):
            dist.recv(torch.empty(3), 1)
        with pytest.raises(ronde.InvalidArgumentError, match="16 bytes"):
            dist.recv(torch.empty(3), 1)


def case_a_message_of_another_dtype_is_an_error():
    rank, size = here()
    if rank == 0:
        dist.send(torch.ones(3), size - 1)
    elif rank == size - 1:
        kept = torch.zeros(3, dtype=torch.int32)
        with pytest.raises(ronde.MismatchError, match=r"rank 0 sent .* float32, but .* of int32"):
            dist.recv(kept, 0)
        assert kept.tolist() == [0, 0, 0]


def case_outputs_that_share_memory_are_refused():
    _, size = here()
    one, many = torch.zeros(3), torch.zeros(3 * size)
    with pytest.raises(ronde.InvalidArgumentError, match=r"out\[0\] and out\[1\] share"):
        dist.all_gather([one] * size, torch.ones(3))
    outputs = [many[i : i + 3] for i in range(size)]
    with pytest.raises(ronde.InvalidArgumentError, match=r"alltoall: .* share memory"):
        dist.all_to_all(outputs, [torch.ones(3)] * size)
    assert not many.any()


@pytest.mark.filterwarnings("ignore::FutureWarning")
def case_errors_of_deprecated_calls_name_the_users_line():
    whole = torch.ones(5)
    with pytest.raises(ronde.InvalidArgumentError, match=r"\(\S*error_cases.py:\d+\)"):
        dist.all_reduce_coalesced([whole[:3], whole[2:]])


def case_groups_whose_ranks_are_out_of_order_are_refused():
    _, size = here()
    if "sort_ranks" not in inspect.signature(dist.new_group).parameters:
        return  # before torch 2.13 new_group() sorts them
    with pytest.raises(ronde.UnsupportedError, match="ascending"):
        dist.new_group(list(range(size))[::-1], sort_ranks=False)


def case_calls_out_of_step_are_errors_that_name_both():
    rank, _ = here()
    tensor = torch.full((2,), float(rank))

    def call():
        if rank == 0:
            dist.all_reduce(tensor)
        else:
            dist.broadcast(tensor, 0)

    for _ in range(2):  # also when both calls are known from before
        with pytest.raises(ronde.MismatchError) as caught:
            call()
        text = str(caught.value)
        assert "rank 0 submitted allreduce" in text, text
        assert "submitted broadcast" in text, text
        assert text.count("error_cases.py:") == 2, text
        assert tensor.tolist() == [rank, rank]
    lines = {part.split(")")[0] for part in text.split("error_cases.py:")[1:]}
    assert len(lines) == 2, text
    with pytest.raises(ronde.MismatchError, match=r"shape \[3\]"):
        dist.all_reduce(torch.ones(3 if rank == 0 else 4))
    with pytest.raises(ronde.MismatchError, match="dtype"):
        dist.all_gather_into_tensor(
            torch.empty(dist.get_world_size(), dtype=torch.float64 if rank == 0 else torch.int64),
            torch.ones(1, dtype=torch.float64 if rank == 0 else torch.int64),
        )
    with pytest.raises(ronde.MismatchError, match="root"):
        dist.broadcast(tensor, min(rank, 1))
    with pytest.raises(ronde.MismatchError, match="op "):
        dist.all_reduce(tensor, dist.ReduceOp.MAX if rank == 0 else dist.ReduceOp.SUM)
    dist.all_reduce(tensor)  # the group goes on


def case_a_mismatch_reaches_futures_too():
    rank, _ = here()
    work = dist.all_reduce(torch.ones(2 + min(rank, 1)), async_op=True)
    with pytest.raises(ronde.MismatchError):
        work.get_future().wait()
    with pytest.raises(ronde.MismatchError):
        work.get_future().then(lambda future: future.value()).wait()
    with pytest.raises(ronde.MismatchError):
        work.wait()
    assert not work.is_success()
    assert isinstance(work.exception(), ronde.MismatchError)


def case_operations_started_in_callbacks_match_whenever_those_run():
    rank, size = here()
    for late in range(size):
        future = dist.all_reduce(torch.ones(1), async_op=True).get_future()
        if rank == late:
            future.wait()
        chain = future.then(lambda done: dist.all_reduce(done.value()[0]) or done.value()[0])
        for _ in range(2):
            chain = chain.then(
                lambda done: dist.all_reduce(done.value(), async_op=True).get_future().wait()[0]
            )
        other = torch.ones(1)
        dist.all_reduce(other)
        assert other.item() == size
        assert chain.wait().item() == size**4


def case_callbacks_of_messages_cannot_start_operations():
    rank, _ = here()
    if rank == 0:
        dist.send(torch.ones(1), 1)
    elif rank == 1:
        work = dist.irecv(torch.empty(1), 0)
        later = work.get_future().then(lambda done: dist.all_reduce(torch.ones(1)))
        with pytest.raises(ronde.UnsupportedError, match="callback"):
            later.wait()
    dist.barrier()


def case_wrong_sizes_are_refused_at_once():
    _, size = here()
    with pytest.raises(ronde.InvalidArgumentError, match="elements are needed"):
        dist.all_gather_into_tensor(torch.empty(size + 1), torch.ones(1))
    with pytest.raises(ronde.InvalidArgumentError, match="ranks"):
        dist.reduce_scatter(torch.empty(1), [torch.ones(1)] * (size + 1))
    with pytest.raises(ronde.InvalidArgumentError, match="split sizes"):
        dist.all_to_all_single(torch.empty(size), torch.ones(size), [1] * size, [2] * size)


def case_who_does_not_call_is_named_when_the_timeout_passes():
    rank, size = here()
    impatient = dist.new_group(timeout=datetime.timedelta(seconds=1))
    if rank != 0:
        with pytest.raises(ronde.StalledError, match=r"ranks? 0"):
            dist.all_reduce(torch.ones(1), group=impatient)
        dist.barrier()
    else:
        dist.barrier()
        with pytest.raises(ronde.StalledError):  # late: what the others got
            dist.all_reduce(torch.ones(1), group=impatient)
    tensor = torch.ones(1)
    dist.all_reduce(tensor, group=impatient)
    assert tensor.item() == size


def case_a_wait_has_a_timeout_of_its_own():
    rank, _ = here()
    if rank == 0:
        work = dist.irecv(torch.empty(1), 1, tag=77)
        with pytest.raises(ronde.TimeoutError, match="recv from rank 1"):
            work.wait(datetime.timedelta(milliseconds=50))
        dist.barrier()
        assert work.wait()
    else:
        dist.barrier()
        if rank == 1:
            dist.send(torch.ones(1), 0, tag=77)


def case_monitored_barrier_says_who_is_missing():
    rank, size = here()
    rd.monitored_barrier()
    late = rank == size - 1
    if late:
        dist.recv(torch.empty(1), 0)
    with pytest.raises(ronde.TimeoutError, match=f"rank {size - 1} did not come"):
        rd.monitored_barrier(timeout=datetime.timedelta(seconds=1), wait_all_ranks=True)
    if rank == 0:
        dist.send(torch.ones(1), size - 1)
    rd.monitored_barrier()


def case_an_aborted_group_fails_what_is_pending():
    rank, _ = here()
    doomed = dist.new_group()
    if rank == 0:
        work = dist.all_reduce(torch.ones(1), group=doomed, async_op=True)
        doomed.abort()
        with pytest.raises(ronde.AbortedError, match="aborted"):
            work.wait()
        with pytest.raises(ronde.NotInitializedError):
            dist.all_reduce(torch.ones(1), group=doomed)
        dist.barrier()
    else:
        dist.barrier()
        with pytest.raises(ronde.RankFailure, match="rank 0"):
            dist.all_reduce(torch.ones(1), group=doomed)


def case_errors_end():
    dist.destroy_process_group()
    ronde.barrier()
