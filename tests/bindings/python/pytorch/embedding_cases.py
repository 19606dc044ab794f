"""Cases for ShardedEmbedding, against one torch.nn.Embedding with the joined batch."""

import copy
import io
import pickle

import pytest
import ronde
import ronde.torch as hvd
import torch
from torch import nn

ROWS, WIDTH = 23, 4


def both(**options):
    """A sharded table, and a torch.nn.Embedding with the same rows."""
    torch.manual_seed(1)
    sharded = hvd.ShardedEmbedding(ROWS, WIDTH, **options)
    whole = nn.Embedding(ROWS, WIDTH, padding_idx=options.get("padding_idx"), sparse=True)
    with torch.no_grad():
        whole.weight.copy_(sharded.table())
    return sharded, whole


def batch_of(rank, step):
    """Indices with duplicates; batches differ between ranks, and are empty on one at times."""
    draw = torch.Generator().manual_seed(100 * step + rank)
    count = 0 if (rank + step) % 3 == 0 else 5 + 4 * rank
    return torch.randint(ROWS, (count, 2), generator=draw)


def optimizer_of(kind, table):
    if kind is torch.optim.SGD:
        return kind(table.parameters(), lr=0.5)
    return kind(list(table.parameters()), lr=0.1)


def loss_of(table, indices):
    return (table(indices) * torch.arange(1.0, WIDTH + 1)).pow(2).sum()


def case_a_sharded_table_trains_as_one_process_with_the_joined_batch():
    for kind in (torch.optim.SGD, torch.optim.Adagrad, torch.optim.SparseAdam):
        for options in ({}, {"padding_idx": 3}, {"op": hvd.Sum}):
            sharded, whole = both(**options)
            ours, theirs = optimizer_of(kind, sharded), optimizer_of(kind, whole)
            for step in range(3):
                for optimizer in (ours, theirs):
                    optimizer.zero_grad()
                mine = batch_of(hvd.rank(), step)
                loss = loss_of(sharded, mine)
                assert sharded(mine).shape == (*mine.shape, WIDTH)
                loss.backward()
                joined = sum(loss_of(whole, batch_of(r, step)) for r in range(hvd.size()))
                (joined / (1 if "op" in options else hvd.size())).backward()
                ours.step()
                theirs.step()
            assert torch.allclose(sharded.table(), whole.weight, rtol=1e-4, atol=1e-5), kind


def case_a_dense_gradient_serves_any_optimizer():
    sharded, whole = both(sparse=False)
    loss_of(sharded, torch.tensor([hvd.rank(), 5, 5])).backward()
    assert not sharded.weight.grad.is_sparse
    with torch.no_grad():
        sharded.weight -= sharded.weight.grad
    for rank in range(hvd.size()):
        (loss_of(whole, torch.tensor([rank, 5, 5])) / hvd.size()).backward()
    expected = whole.weight - whole.weight.grad.to_dense()
    assert torch.allclose(sharded.table(), expected, atol=1e-4)


def case_rows_are_dealt_evenly_and_differ():
    sharded, _ = both(padding_idx=-1)
    counts = hvd.allgather(torch.tensor([len(sharded.weight)]))
    assert counts.sum() == ROWS
    assert counts.max() - counts.min() <= 1
    table = sharded.table()
    assert len(table.unique(dim=0)) == ROWS
    assert table[-1].tolist() == [0] * WIDTH
    assert torch.equal(hvd.broadcast(table, 0), table)
    with torch.no_grad():
        assert torch.equal(sharded(torch.arange(ROWS)), table)
        assert sharded(torch.zeros(0, dtype=torch.int32)).shape == (0, WIDTH)


def case_an_index_out_of_range_is_an_error_on_all_ranks():
    sharded, _ = both()
    for wrong in (ROWS, -2):
        indices = torch.tensor([0, wrong if hvd.rank() == hvd.size() - 1 else 1])
        with pytest.raises(ronde.InvalidArgumentError) as raised:
            sharded(indices)
        assert f"member {hvd.size() - 1} gave index {wrong}; allowed: 0 to 22" in str(raised.value)
    assert sharded(torch.tensor([1])).shape == (1, WIDTH)


def case_state_is_saved_in_parts_and_loads_anywhere():
    sharded, whole = both()
    state = nn.ModuleDict({"table": sharded}).state_dict()
    assert list(state) == ["table._extra_state"]
    saved = io.BytesIO()
    torch.save(state, saved)
    saved.seek(0)
    other = nn.ModuleDict({"table": hvd.ShardedEmbedding(ROWS, WIDTH)})
    other.load_state_dict(torch.load(saved))
    assert torch.equal(other["table"].weight, sharded.weight)
    parts = hvd.allgather_object(sharded.get_extra_state())
    assert torch.equal(hvd.ShardedEmbedding.joined(parts[::-1]), whole.weight)
    with pytest.raises(ValueError, match=r"parts \[0\]"):
        hvd.ShardedEmbedding.joined(parts[:1])
    again = hvd.ShardedEmbedding(ROWS, WIDTH)
    with pytest.raises(ronde.MismatchError, match="is part"):
        again.set_extra_state(parts[hvd.rank() - 1])
    again.load_state_dict(whole.state_dict())
    assert torch.equal(again.table(), whole.weight)
    with pytest.raises(RuntimeError, match="_extra_state"):
        again.load_state_dict({})


def case_the_table_is_left_alone_by_calls_for_replicas():
    sharded, whole = both()
    model = nn.ModuleDict({"table": sharded, "top": nn.Linear(WIDTH, 1)})
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_parameters(model.named_parameters(), root_rank=0)
    assert torch.equal(sharded.table(), whole.weight)
    for copied in (model, copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        hvd.broadcast_parameters(copied.named_parameters(), root_rank=0)
        assert torch.equal(copied["table"].weight, sharded.weight)
        inner = torch.optim.SGD(copied.parameters(), lr=0.1)
        with pytest.raises(ValueError, match="an optimizer of its own"):
            hvd.DistributedOptimizer(inner)
        with pytest.raises(ValueError, match="an optimizer of its own"):
            hvd.broadcast_optimizer_state(inner, root_rank=0)


def case_the_state_of_a_tables_optimizer_stays_and_its_options_are_sent():
    sharded, _ = both()
    optimizer = optimizer_of(torch.optim.SparseAdam, sharded)
    loss_of(sharded, batch_of(hvd.rank(), 1)).backward()
    optimizer.step()
    before = copy.deepcopy(optimizer.state_dict()["state"])
    optimizer.param_groups[0]["lr"] = 0.5 + hvd.rank()
    hvd.broadcast_optimizer_state(optimizer, root_rank=1)
    assert optimizer.param_groups[0]["lr"] == 1.5
    after = optimizer.state_dict()["state"][0]
    assert after["exp_avg"].equal(before[0]["exp_avg"])


def case_tables_refuse_bad_arguments():
    with pytest.raises(ValueError, match="num_embeddings=0"):
        hvd.ShardedEmbedding(0, 4)
    with pytest.raises(ValueError, match=r"padding_idx=23; allowed: -23 to 22"):
        hvd.ShardedEmbedding(ROWS, 4, padding_idx=ROWS)
    with pytest.raises(ValueError, match="op=Max"):
        hvd.ShardedEmbedding(ROWS, 4, op=hvd.Max)
    sharded, _ = both()
    with pytest.raises(ValueError, match=r"a table of shape \[2, 4\]"):
        sharded.load_table(torch.zeros(2, 4))
