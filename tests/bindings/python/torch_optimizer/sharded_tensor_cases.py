"""Cases for optimizers that are sharded by whole tensors, such as Muon."""

import pytest
import ronde
import ronde.torch as hvd
import torch
from ronde._training.owners import owners
from ronde.torch._sharded.kinds import costs
from sharded_models import assert_same, batch
from torch import nn

RANKS = (2, 4)
OPTIONS = ("--env", "RONDE_DETERMINISTIC=1")


def matrices():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(20, 30), nn.Tanh(), nn.Linear(30, 9), nn.Linear(9, 7))


def by_tensors(make, **options):
    """The parameters after three steps, dense and sharded."""
    results = []
    for way in (None, "optimizer", "gradients"):
        model = matrices()
        optimizer = hvd.DistributedOptimizer(
            make(model), model.named_parameters(), shard=way, **(options if way else {})
        )
        for step in range(3):
            optimizer.zero_grad()
            model(torch.full((3, 20), 0.1 * step + hvd.rank())).pow(2).sum().backward()
            optimizer.step()
        results.append([p.detach().clone() for p in model.parameters()])
        if way:
            wholes = {piece.parameter for piece in optimizer._pieces() if piece.whole}
            every = hvd.allgather_object(len(wholes))
            assert sum(every) == len(optimizer._parameters())
            assert len(optimizer.state_dict()["state"]) == sum(every)
    assert_same(results[1], results[0])
    assert_same(results[2], results[0])


def case_adafactor_is_sharded_by_whole_tensors():
    by_tensors(lambda model: torch.optim.Adafactor(model.parameters(), lr=0.01))


def case_muon_has_one_owner_for_each_matrix():
    def make(model):
        wide = [p for p in model.parameters() if p.dim() == 2]
        return torch.optim.Muon(wide, lr=0.01)

    by_tensors(lambda model: _only_matrices(model, make))


def _only_matrices(model, make):
    for parameter in model.parameters():
        parameter.requires_grad_(parameter.dim() == 2)
    return make(model)


class Words(nn.Module):
    """A model with an embedding, hidden matrices and a head."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(37, 16)
        self.hidden = nn.Sequential(nn.Linear(16, 48), nn.Tanh(), nn.Linear(48, 16))
        self.head = nn.Linear(16, 37)

    def forward(self, tokens):
        return self.head(self.hidden(self.embedding(tokens))).pow(2).mean()


def words():
    torch.manual_seed(0)
    return Words()


def case_sharded_muon_updates_hidden_matrices_and_the_rest_with_adamw():
    plain, model = words(), words()
    hidden = [
        p for name, p in plain.named_parameters() if name.startswith("hidden") and p.dim() > 1
    ]
    rest = [p for name, p in plain.named_parameters() if not any(p is one for one in hidden)]
    pair = [torch.optim.Muon(hidden, lr=0.02), torch.optim.AdamW(rest, lr=0.003)]
    optimizer = hvd.ShardedMuon(
        model.named_parameters(), lr=0.02, adamw={"lr": 0.003}, shard="gradients"
    )
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.1)
    for step in range(4):
        plain.zero_grad()
        optimizer.zero_grad()
        plain(batch(step)).backward()
        model(batch(step)).backward()
        for parameter in plain.parameters():
            parameter.grad = hvd.allreduce(parameter.grad)
        for one in pair:
            one.step()
            one.param_groups[0]["lr"] *= 0.1 if step % 2 else 1
        optimizer.step()
        scheduler.step()
    for ours, theirs in zip(model.parameters(), plain.parameters()):
        assert torch.allclose(ours, theirs, atol=1e-6)
    again = words()
    again.load_state_dict(model.state_dict())
    resumed = hvd.ShardedMuon(again.named_parameters(), lr=0.02, adamw={"lr": 0.003})
    resumed.load_state_dict(optimizer.state_dict())
    for one, other in ((model, optimizer), (again, resumed)):
        other.zero_grad()
        one(batch(9)).backward()
        other.step()
    assert_same(again.parameters(), list(model.parameters()))


def case_groups_added_to_sharded_muon_are_updated_by_adamw():
    model, late = words(), nn.Parameter(torch.ones(130))
    same = nn.Parameter(torch.ones(130))
    adamw = torch.optim.AdamW([same], lr=0.003)
    optimizer = hvd.ShardedMuon(model.named_parameters(), adamw={"lr": 0.003})
    optimizer.add_param_group({"params": [late]})
    for step in range(3):
        optimizer.zero_grad()
        adamw.zero_grad()
        (model(batch(step)) + late.pow(2).sum()).backward()
        same.pow(2).sum().backward()
        optimizer.step()
        adamw.step()
    assert torch.allclose(late, same, atol=1e-6)


def case_sharded_muon_says_what_it_cannot_orthogonalise():
    with pytest.raises(ronde.InvalidArgumentError, match=r"hidden\.0\.bias has 1 dimensions"):
        hvd.ShardedMuon(words().named_parameters(), is_hidden=lambda name, _: "hidden" in name)


def case_any_optimizer_can_be_sharded_by_tensors():
    for compression in (hvd.Compression.none, "none"):
        by_tensors(
            lambda model: torch.optim.SGD(model.parameters(), 0.01, 0.9),
            shard_by="tensors",
            compression=compression,
        )

    class Own(torch.optim.SGD):
        """An optimizer that Ronde does not know."""

    by_tensors(lambda model: Own(model.parameters(), 0.01, 0.9))


def case_owners_share_the_cost():
    tensors = [torch.empty(512, 2048, device="meta")] * 12 + [torch.empty(8, device="meta")] * 5
    work = costs(torch.optim.Muon([nn.Parameter(torch.ones(2, 2))]), tensors)
    chosen = owners(work, 4)
    assert [chosen[:12].count(place) for place in range(4)] == [3, 3, 3, 3]


def case_optimizers_that_cannot_be_sharded_are_refused_by_name():
    model = matrices()
    for optimizer, why in (
        (torch.optim.LBFGS(model.parameters()), "LBFGS cannot be sharded: its step combines"),
        (torch.optim.SparseAdam(model.parameters()), "SparseAdam cannot be sharded"),
    ):
        with pytest.raises(ronde.UnsupportedError, match=why):
            hvd.DistributedOptimizer(optimizer, shard="optimizer")
    adafactor = torch.optim.Adafactor(model.parameters())
    with pytest.raises(ronde.UnsupportedError, match="Adafactor needs whole tensors"):
        hvd.DistributedOptimizer(adafactor, shard="optimizer", shard_by="elements")
    for options, why in (
        ({"shard": "parameters"}, "shard='parameters'"),
        ({"shard": "optimizer", "shard_by": "rows"}, "shard_by='rows'"),
        ({"shard": "optimizer", "compression": hvd.Compression.topk}, "compression topk"),
        ({"shard": "optimizer", "flat_gradients": True}, "flat_gradients"),
        ({"shard": "optimizer", "weight": 2.0}, "weight"),
        ({"shard": "optimizer", "op": hvd.Adasum}, "op=Average or op=Sum"),
        ({"shard_by": "tensors"}, "shard_by and model are for shard"),
    ):
        with pytest.raises(ronde.InvalidArgumentError, match=why):
            hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), 0.1), **options)
