"""Cases for the state that ranks get from the root."""

import collections
import difflib
import http
import io
import warnings

import pytest
import ronde
import ronde.torch as hvd
import torch
from torch import nn
from torch.optim import lr_scheduler

Mode = http.HTTPStatus  # an enum, and a named tuple, that all ranks can import
Pair = difflib.Match


def network():
    torch.manual_seed(hvd.rank())
    return nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2))


def train(net, optimizer, steps, scheduler=None):
    for _ in range(steps):
        optimizer.zero_grad()
        net(torch.ones(2, 4)).square().mean().backward()
        optimizer.step()
        if scheduler:
            scheduler.step()


def text_of(value):
    """A text that is the same for states that are the same, with their types."""
    if isinstance(value, torch.Tensor):
        return f"{value.dtype}{list(value.shape)}{value.tolist()}"
    if isinstance(value, dict):
        items = [(repr(key), text_of(item)) for key, item in value.items()]
        return f"{type(value).__name__}{items}"
    if isinstance(value, (list, tuple, collections.deque)):
        return f"{type(value).__name__}{[text_of(item) for item in value]}"
    return repr(value)


def same_everywhere(value):
    texts = hvd.allgather_object(text_of(value))
    return texts == [texts[0]] * hvd.size()


SCHEDULERS = [
    lambda o: lr_scheduler.StepLR(o, 1, 0.5),
    lambda o: lr_scheduler.LambdaLR(o, lambda epoch: 1 / (1 + epoch)),
    lambda o: lr_scheduler.CosineAnnealingLR(o, 10),
    lambda o: lr_scheduler.OneCycleLR(o, max_lr=0.1, total_steps=20),
    lambda o: lr_scheduler.ReduceLROnPlateau(o, patience=0),
]


def case_schedulers_made_before_go_on_alike_on_all_ranks():
    for make in SCHEDULERS:
        for wraps_first in (False, True):
            net = network()
            optimizer = torch.optim.SGD(net.parameters(), lr=1.0, momentum=0.9)
            if wraps_first:
                optimizer = hvd.DistributedOptimizer(optimizer, net.named_parameters())
            scheduler = make(optimizer)
            if not wraps_first:
                optimizer = hvd.DistributedOptimizer(optimizer, net.named_parameters())
            hvd.broadcast_parameters(net.state_dict(), root_rank=0)
            hvd.broadcast_optimizer_state(optimizer, root_rank=0)
            before = optimizer.param_groups[0]["lr"]
            plateau = isinstance(scheduler, lr_scheduler.ReduceLROnPlateau)
            with warnings.catch_warnings():
                warnings.simplefilter("error")  # torch's of a scheduler that saw no step
                for _ in range(3):
                    train(net, optimizer, 1)
                    scheduler.step(*[1.0] * plateau)
            assert optimizer.param_groups[0]["lr"] != before
            assert same_everywhere(optimizer.state_dict())
            assert same_everywhere(net.state_dict())


def case_a_loaded_checkpoint_of_the_root_keeps_the_objects_of_fresh_ranks():
    net = network()
    plain = torch.optim.Adam(net.parameters(), lr=0.1 * (1 + hvd.rank()), amsgrad=True)
    plain.add_param_group({"params": [nn.Parameter(torch.ones(2))], "name": f"of {hvd.rank()}"})
    if hvd.rank() == 0:
        train(net, plain, 3)
    wrapped = hvd.DistributedOptimizer(plain)
    groups, state = plain.param_groups, plain.state
    members = [(group, group["params"]) for group in groups]
    mine = text_of(plain.state_dict())
    hvd.broadcast_optimizer_state(wrapped, root_rank=0)
    assert wrapped.param_groups is plain.param_groups is groups
    assert wrapped.state is plain.state is state
    for group, (before, parameters) in zip(groups, members):
        assert group is before
        assert group["params"] is parameters
    assert same_everywhere(plain.state_dict())
    assert groups[0]["lr"] == pytest.approx(0.1)
    assert groups[1]["name"] == "of 0"
    assert hvd.rank() or text_of(plain.state_dict()) == mine
    tensors = [state[p]["exp_avg"] for p in net.parameters()]
    for tensor in tensors:
        tensor.add_(hvd.rank())
    hvd.broadcast_optimizer_state(wrapped, root_rank=0)
    assert all(t is state[p]["exp_avg"] for t, p in zip(tensors, net.parameters()))
    assert same_everywhere(plain.state_dict())


def odd_state(rank):
    """State of every type that optimizers of others keep."""
    counts = collections.defaultdict(list, {"seen": [rank, torch.ones(2) * rank]})
    shared = torch.full((2,), float(rank))
    return {
        "master": torch.full((3,), 0.1 + rank, dtype=torch.float32),
        "spectrum": torch.full((2,), 1j * rank, dtype=torch.complex64),
        "mask": torch.tensor([True, rank == 0]),
        "step": torch.tensor(3 + rank),
        "count": 7 + rank,
        "counts": counts,
        "history": collections.deque([torch.ones(1) * rank, None], maxlen=4),
        "pair": Pair(torch.ones(2) * rank, "a", 3),
        "mode": list(Mode)[min(rank, 1)],
        "nothing": None,
        "flag": rank == 0,
        "complex": complex(1, rank),
        "nested": [[torch.zeros(()) + rank], (1, {"deep": torch.ones(1, 2) * rank})],
        "strided": torch.arange(6.0).view(2, 3).t() + rank,
        "twice": [shared, shared],
    }


def case_state_keeps_its_types_and_its_dtypes():
    for fresh in (True, False):
        weights = [nn.Parameter(torch.ones(3, dtype=torch.bfloat16)) for _ in range(2)]
        optimizer = torch.optim.SGD(weights, lr=torch.tensor(0.5 + hvd.rank()))
        rate = optimizer.param_groups[0]["lr"]
        if hvd.rank() == 0 or not fresh:
            optimizer.state[weights[0]] = odd_state(hvd.rank())
            optimizer.param_groups[0]["mode"] = list(Mode)[min(hvd.rank(), 1)]
        before = optimizer.state.get(weights[0], None)
        inner = before and (before["counts"], before["history"], before["master"])
        hvd.broadcast_optimizer_state(optimizer, root_rank=0)
        assert list(optimizer.state) == weights[:1]
        found = optimizer.state[weights[0]]
        assert text_of(found) == text_of(odd_state(0))
        assert optimizer.param_groups[0]["lr"] is rate
        assert rate.item() == 0.5
        assert optimizer.param_groups[0]["mode"] is Mode.CONTINUE
        assert found["twice"][0] is found["twice"][1]
        assert found["counts"]["new"] == []
        assert found["history"].maxlen == 4
        if before:
            assert found is before
            assert inner == (found["counts"], found["history"], found["master"])
            assert inner[0] is found["counts"]
            assert inner[1] is found["history"]


def case_state_of_parameters_that_the_root_does_not_have_goes():
    weights = [nn.Parameter(torch.ones(3)) for _ in range(2)]
    optimizer = torch.optim.SGD(weights, lr=0.1, momentum=0.9)
    if hvd.rank():
        optimizer.state[weights[1]]["momentum_buffer"] = torch.ones(3)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    assert not optimizer.state
    assert isinstance(optimizer.state, collections.defaultdict)


class Averaged(torch.optim.SGD):
    """Keeps more than torch's state, as optimizers of others do."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.mean = None

    def state_dict(self):
        return {**super().state_dict(), "mean": self.mean}

    def load_state_dict(self, state):
        self.mean = state.pop("mean")
        super().load_state_dict(state)


def case_an_optimizers_own_state_dict_is_used():
    weight = nn.Parameter(torch.ones(2, dtype=torch.float16))
    plain = Averaged([weight], lr=0.1 + hvd.rank())
    plain.mean = torch.ones(2) * hvd.rank()
    groups, state = plain.param_groups, plain.state
    state[weight]["master"] = torch.ones(2) * hvd.rank()
    optimizer = hvd.DistributedOptimizer(plain)
    hvd.broadcast_optimizer_state(plain, root_rank=hvd.size() - 1)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    assert plain.param_groups is optimizer.param_groups is groups
    assert plain.state is state
    assert state[weight]["master"].dtype == torch.float32
    assert optimizer.mean.tolist() == [0, 0]
    assert groups[0]["lr"] == pytest.approx(0.1 + hvd.size() - 1)  # of the first broadcast


def case_groups_that_differ_are_an_error_on_all_ranks():
    weights = [nn.Parameter(torch.ones(3)) for _ in range(2 + (hvd.rank() == 1))]
    optimizer = torch.optim.SGD(weights, lr=0.1)
    with pytest.raises(ronde.MismatchError, match=r"\[3\] parameters on rank 1, but \[2\] on rank"):
        hvd.broadcast_optimizer_state(optimizer, root_rank=0)


class Odd(nn.Module):
    """Has every kind of entries in its state_dict()."""

    def __init__(self, step):
        super().__init__()
        self.step = step
        self.weight = nn.Parameter(torch.arange(12.0).view(3, 4).t() + hvd.rank())
        self.tied = self.weight
        self.register_buffer("count", torch.tensor(5 + hvd.rank()))
        self.register_buffer("mask", torch.tensor([hvd.rank() == 0, True]))
        self.register_buffer("phase", torch.full((2,), 1j * hvd.rank()))
        self.register_buffer("absent", None)

    def get_extra_state(self):
        return {"step": self.step}

    def set_extra_state(self, state):
        self.step = state["step"]


def case_parameters_of_every_kind_are_set_in_place():
    for given in (lambda net: net, lambda net: net.state_dict()):
        net = Odd(step=3)
        weight = net.weight
        hvd.broadcast_parameters(given(net), root_rank=0)
        assert net.weight is net.tied is weight
        assert not weight.is_contiguous()
        assert weight.tolist() == torch.arange(12.0).view(3, 4).t().tolist()
        assert (net.count.item(), net.mask.tolist()) == (5, [True, True])
        assert net.phase.tolist() == [0, 0]


def case_other_values_of_a_state_dict_must_be_the_same():
    with pytest.raises(ronde.MismatchError, match=r"_extra_state.*broadcast_object\(\) sends them"):
        hvd.broadcast_parameters(Odd(step=hvd.rank()).state_dict(), root_rank=0)
    with pytest.raises(ronde.MismatchError, match=r'"rate" 1 on rank 1, but "rate" 0 on rank 0'):
        hvd.broadcast_parameters({"rate": hvd.rank()}, root_rank=0)
    with pytest.raises(ronde.InvalidArgumentError, match=r"no tensor but int; .*state_dict\(\)"):
        hvd.broadcast_parameters([3], root_rank=0)


def case_a_state_in_memory_goes_into_the_objects_that_are_there():
    net = network()
    optimizer = torch.optim.Adam(net.parameters(), lr=0.1)
    history = collections.defaultdict(list, {"loss": [0.5]})
    best = torch.zeros(2)
    state = hvd.elastic.TorchState(net, optimizer, history=history, best=best, batch=hvd.rank())
    scheduler = lr_scheduler.ExponentialLR(optimizer, 0.5)
    groups, own = optimizer.param_groups, optimizer.state
    for change in (state.restore, state.sync):
        train(net, optimizer, 1, scheduler)
        history["loss"].append(hvd.rank())
        best.add_(hvd.rank() + 1)
        change()
        assert optimizer.param_groups is groups
        assert optimizer.state is own
        assert state.history is history
        assert state.best is best
        assert same_everywhere([optimizer.state_dict(), dict(history), best])
        train(net, optimizer, 1, scheduler)
        assert same_everywhere(optimizer.param_groups[0]["lr"])


def case_a_checkpoint_of_state_reads_back():
    weight = nn.Parameter(torch.ones(3, dtype=torch.bfloat16))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    optimizer.state[weight] = odd_state(0)
    state = hvd.elastic.TorchState(None, optimizer)
    file = io.BytesIO(bytes(state._pack(state._snapshot())))
    optimizer.state[weight] = odd_state(1)
    state._unpack(file.getvalue())
    assert text_of(optimizer.state[weight]) == text_of(odd_state(0))
