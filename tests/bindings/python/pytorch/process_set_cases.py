"""Cases for process sets."""

import copy

import pytest
import ronde.torch as hvd
import torch
from ronde import InvalidArgumentError
from torch import nn


def total(process_set, **options):
    return hvd.allreduce(
        torch.full((2,), float(hvd.rank())), op=hvd.Sum, process_set=process_set, **options
    ).tolist()


def case_process_sets_limit_who_takes_part():
    first = hvd.add_process_set(hvd.ProcessSet([0]))
    assert (first.size(), first.ranks) == (1, [0])
    assert first.included() == (hvd.rank() == 0)
    if first.included():
        assert first.rank() == 0
        assert total(first) == [0.0, 0.0]
        assert hvd.allgather(torch.ones(1), process_set=first).shape == (1,)
    else:
        with pytest.raises(hvd.HorovodInternalError):
            total(first)
        with pytest.raises(ValueError, match="is not in"):
            first.rank()
    hvd.barrier()
    assert hvd.remove_process_set(first)


def case_process_sets_are_listed_as_horovods_tests_ask():
    everyone = list(range(hvd.size()))
    one = hvd.add_process_set([0])
    known = hvd.mpi_ops._basics._get_process_set_ids_and_ranks()
    assert known == {0: everyone, one.process_set_id: [0]}
    assert str(one) == f"ProcessSet(process_set_id={one.process_set_id}, ranks=[0], mpi_comm=None)"
    assert str(hvd.global_process_set) == (
        f"ProcessSet(process_set_id=0, ranks={everyone}, mpi_comm=None)"
    )
    assert hvd.mpi_ops._basics.size() == hvd.size()
    hvd.remove_process_set(one)
    assert hvd.mpi_ops._basics._get_process_set_ids_and_ranks() == {0: everyone}


def case_a_collective_of_a_set_that_a_rank_is_not_in_says_so():
    one = hvd.add_process_set([1])
    ones = torch.ones(2)
    if hvd.rank() != 1:
        said = rf"rank {hvd.rank()} is not in ProcessSet\(.*ranks=\[1\]"
        for call in (hvd.allreduce, hvd.allreduce_async, hvd.allgather, hvd.grouped_allreduce_):
            given = [ones] if call is hvd.grouped_allreduce_ else ones
            with pytest.raises(InvalidArgumentError, match=said):
                call(given, process_set=one)
        with pytest.raises(InvalidArgumentError, match=said):
            hvd.barrier(one)
    hvd.barrier()
    assert hvd.remove_process_set(one)


def case_overlapping_sets_work_side_by_side():
    size = hvd.size()
    rings = [[0]] if size == 2 else [[rank, (rank + 1) % size] for rank in range(size)]
    made = [hvd.add_process_set(ranks) for ranks in rings]
    mine = [s for s in [*made, hvd.global_process_set] if s.included()]
    if hvd.rank() == 1:
        mine.reverse()  # sets wait for nothing in another set
    one = torch.full((3,), hvd.rank() + 1.0)
    handles = [hvd.allreduce_async(one, name="ring", op=hvd.Sum, process_set=s) for s in mine]
    for process_set, handle in zip(mine, handles):
        expected = float(sum(rank + 1 for rank in process_set.ranks))
        assert hvd.synchronize(handle).tolist() == [expected] * 3
    hvd.barrier()
    for process_set in made:
        assert hvd.remove_process_set(process_set)


def case_sets_that_exist_or_make_no_sense_are_value_errors():
    one = hvd.add_process_set([0])
    with pytest.raises(ValueError):  # noqa: PT011
        hvd.add_process_set([0])
    for ranks in ([], [hvd.size()], [0, 0]):
        with pytest.raises(ValueError):  # noqa: PT011
            hvd.add_process_set(ranks)
    assert hvd.remove_process_set(one)


def case_a_removed_set_is_of_no_use():
    gone = hvd.add_process_set([0])
    assert hvd.remove_process_set(gone)
    assert gone.process_set_id is None
    assert (gone.size(), gone.rank(), gone.included()) == (None, None, None)
    assert not hvd.remove_process_set(gone)
    assert not hvd.remove_process_set(hvd.global_process_set)
    with pytest.raises(ValueError, match="not registered"):
        total(gone)
    with pytest.raises(ValueError, match="not registered"):
        hvd.DistributedOptimizer(
            torch.optim.SGD(nn.Linear(1, 1).parameters(), lr=1.0), process_set=gone
        )
    again = hvd.add_process_set(gone)
    assert again is gone
    if again.included():
        assert total(again) == [0.0, 0.0]
    hvd.barrier()
    hvd.remove_process_set(again)


def case_sets_given_to_init_are_there_at_once():
    hvd.shutdown()
    sets = [hvd.ProcessSet([0]), hvd.ProcessSet([1])]
    hvd.init(process_sets=sets)
    mine = sets[hvd.rank()] if hvd.rank() < 2 else None
    if mine is not None:
        assert mine.included()
        assert total(mine) == [float(hvd.rank())] * 2
    hvd.shutdown()
    assert sets[0].process_set_id is None
    hvd.init(process_sets="dynamic")
    hvd.barrier()


def case_an_optimizer_averages_within_its_set():
    last = hvd.size() - 1
    outer = hvd.add_process_set([0]) if last == 1 else hvd.add_process_set([0, last])
    weight = nn.Parameter(torch.zeros(2))
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD([weight], lr=1.0), [("weight", weight)], process_set=outer
    )
    (weight * (hvd.rank() + 1)).sum().backward()
    optimizer.step()
    members = [rank + 1.0 for rank in outer.ranks]
    expected = sum(members) / len(members) if outer.included() else hvd.rank() + 1.0
    assert weight.tolist() == [-expected] * 2
    hvd.barrier()
    hvd.remove_process_set(outer)


def case_objects_and_gradients_stay_within_a_set():
    mine = [hvd.add_process_set([rank]) for rank in range(hvd.size())][hvd.rank()]
    assert hvd.allgather_object("x", process_set=mine) == ["x"]
    assert hvd.broadcast_object(hvd.rank(), hvd.rank(), process_set=mine) == hvd.rank()
    x = torch.ones(2, requires_grad=True)
    hvd.allgather(x, process_set=mine).sum().backward()
    hvd.broadcast(x, hvd.rank(), process_set=mine).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]
    hvd.barrier()


def case_numbers_of_removed_sets_are_used_again_the_first_removed_first():
    hvd.shutdown()
    hvd.init()
    one, other = hvd.add_process_set([0]), hvd.add_process_set([1])
    assert (one.process_set_id, other.process_set_id) == (1, 2)
    hvd.remove_process_set(other)
    hvd.remove_process_set(one)
    again, second = hvd.add_process_set([1]), hvd.add_process_set([0])
    assert (again.process_set_id, second.process_set_id) == (2, 1)
    mine = second if hvd.rank() == 0 else again
    if mine.included():
        assert total(mine) == [float(hvd.rank())] * 2
    hvd.remove_process_set(again)
    hvd.remove_process_set(second)


def case_an_operation_in_flight_ends_with_its_set_not_with_the_next_of_that_number():
    if hvd.size() < 3:
        return
    hvd.shutdown()
    hvd.init()
    gone = hvd.add_process_set([0, 1])
    number = gone.process_set_id
    if hvd.rank() == 0:  # rank 1 never submits it to this set
        lost = hvd.allreduce_async(torch.ones(2), name="x", op=hvd.Sum, process_set=gone)
    hvd.remove_process_set(gone)
    made = [hvd.add_process_set([rank, 2]) for rank in (0, 1)]
    assert made[0].process_set_id == number
    for one in made:
        if one.included():
            handle = hvd.allreduce_async(torch.ones(2), name="x", op=hvd.Sum, process_set=one)
            assert hvd.synchronize(handle).tolist() == [2.0, 2.0]
    if hvd.rank() == 0:
        with pytest.raises(hvd.HorovodInternalError, match="removed"):
            hvd.synchronize(lost)
    hvd.barrier()
    for one in made:
        hvd.remove_process_set(one)


def case_a_copy_of_a_removed_set_is_no_name_for_the_next_one():
    hvd.shutdown()
    hvd.init()
    gone = hvd.add_process_set([0])
    kept = copy.copy(gone)
    hvd.remove_process_set(gone)
    following = hvd.add_process_set([1])
    assert following.process_set_id == kept.process_set_id
    if hvd.rank() == 0:
        with pytest.raises(ValueError, match="not registered"):
            total(kept)
    assert not hvd.remove_process_set(kept)
    hvd.remove_process_set(following)
