"""Cases for the check that ranks start with the same parameters."""

import warnings
from contextlib import contextmanager
from unittest import mock

import pytest
import ronde
import ronde.torch as hvd
import torch
from ronde._training import first_step
from torch import nn

BIAS_OF_1 = r'"1\.bias" \(float32\[2\]\) has another value on rank 1 than on rank 0; call hvd\.'


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))


def distributed(net, **options):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    return hvd.DistributedOptimizer(optimizer, net.named_parameters(), **options)


def step(net, optimizer):
    optimizer.zero_grad()
    net(torch.ones(2, 3)).square().mean().backward()
    optimizer.step()


@contextmanager
def mode(chosen):
    with mock.patch.object(first_step, "_mode", return_value=chosen):
        yield


def said_by(*steps):
    """What the check says on this rank."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for each in steps:
            each()
    return [str(one.message) for one in seen if "train different models" in str(one.message)]


def differ(net):
    with torch.no_grad():
        net[1].bias[1] += hvd.rank() == 1
    return net


def case_parameters_that_differ_are_one_warning_on_rank_0():
    options = [{}, {"op": hvd.Adasum}, {"flat_gradients": True}, {"backward_passes_per_step": 2}]
    for chosen in options:
        net = differ(network())
        optimizer = distributed(net, **chosen)
        one = lambda n=net, o=optimizer: step(n, o)  # noqa: E731
        said = said_by(one, one)
        assert len(said) == (hvd.rank() == 0)
        for text in said:
            with pytest.raises(ValueError, match=BIAS_OF_1):
                raise ValueError(text)
            assert "RONDE_CHECK_FIRST_STEP=off" in text


def case_1_bit_adam_checks_too():
    net = differ(network())
    optimizer = hvd.OneBitAdam(net.named_parameters(), lr=0.01, warmup_steps=1)
    assert len(said_by(lambda: step(net, optimizer))) == (hvd.rank() == 0)


def case_parameters_that_are_alike_are_no_warning():
    net = network()
    net.register_buffer("own", torch.full((2,), float(hvd.rank())))
    with torch.no_grad():
        net[0].weight[0, 0] = float("nan")
    hvd.broadcast_parameters(net.state_dict(), root_rank=0)
    assert not said_by(lambda: step(net, distributed(net)))
    for kind in (torch.bfloat16, torch.float64, torch.complex64):
        weights = [nn.Parameter(torch.ones(s, dtype=kind)) for s in ((), (0,), (2, 3), (3, 2))]
        weights[-1] = nn.Parameter(weights[-2].detach().t())
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD(weights, lr=0.1))

        def train(weights=weights, optimizer=optimizer):
            sum((w * w.conj()).sum().abs() for w in weights).backward()
            optimizer.step()

        assert not said_by(train)


def case_an_error_is_the_same_on_all_ranks():
    net = differ(network())
    optimizer = distributed(net)
    before = [p.detach().clone() for p in net.parameters()]
    with mode("error"), pytest.raises(ronde.MismatchError, match=BIAS_OF_1):
        step(net, optimizer)
    assert all(map(torch.equal, before, net.parameters()))
    hvd.broadcast_parameters(net.state_dict(), root_rank=0)
    step(net, optimizer)
    with mode("off"):
        assert not said_by(lambda: step(differ(network()), distributed(network())))


def case_a_parameter_that_one_rank_has_more_is_named():
    net = network()
    if hvd.rank() == 1:
        net.register_parameter("extra", nn.Parameter(torch.ones(2), requires_grad=False))
    said = said_by(lambda: step(net, distributed(net)))
    assert len(said) == (hvd.rank() == 0)
    assert all("has another tensor on rank 1 than on rank 0" in text for text in said)


def case_only_ranks_of_the_set_are_compared():
    if hvd.size() < 3:  # it would be the set of all ranks
        return
    pair = hvd.add_process_set([0, hvd.size() - 1])
    net = network()
    with torch.no_grad():
        net[0].bias += hvd.rank() == hvd.size() - 1
    if pair.included():
        said = said_by(lambda: step(net, distributed(net, process_set=pair)))
        assert len(said) == (hvd.rank() == 0)
        assert all(f"on rank {hvd.size() - 1} than on rank 0" in text for text in said)
    hvd.remove_process_set(pair)


def case_ranks_that_have_joined_are_not_compared():
    net = differ(network())
    optimizer = distributed(net)
    if hvd.rank() == 1:
        hvd.join()
        return
    assert not said_by(lambda: step(net, optimizer))
    hvd.join()
