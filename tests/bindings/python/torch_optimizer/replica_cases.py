"""Cases for the check that replicas stay alike while they train."""

import random
import re
import warnings
from contextlib import contextmanager
from functools import partial
from unittest import mock

import pytest
import ronde
import ronde.torch as hvd
import torch
from drill import flip
from ronde import _core
from ronde._training import replica_check
from torch import nn

RANKS = (2, 3, 4)
OPTIONS = ("--check-replicas", "1")
SAID = re.compile(r'after step (\d+): "(.*)" \(.*\) has another value on rank (\d+) than')


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))


def distributed(net, kind=torch.optim.SGD, **options):
    given = {"momentum": 0.9} if kind is torch.optim.SGD else {}
    plain = kind(net.parameters(), lr=0.01, **given)
    return hvd.DistributedOptimizer(plain, net.named_parameters(), **options)


def step(net, optimizer):
    optimizer.zero_grad()
    net(torch.ones(2, 3) * (1 + hvd.rank())).square().mean().backward()
    optimizer.step()


def steps(net, optimizer, count):
    for _ in range(count):
        step(net, optimizer)


@contextmanager
def reports():
    """The list of what this rank's log says meanwhile."""
    said = []
    with mock.patch.object(_core.Runtime, "warn", lambda _, text: said.append(text)):
        yield said


@contextmanager
def action(chosen):
    with mock.patch.object(replica_check, "_action", return_value=chosen):
        yield


@contextmanager
def after_step(optimizer, fault):
    """Plants a fault between a step and its comparison."""
    hook = optimizer.register_step_post_hook(lambda *_: fault())
    yield
    hook.remove()


def last():
    """The rank that faults are planted on."""
    return hvd.size() - 1


def on_last(fault):
    return lambda: fault() if hvd.rank() == last() else None


def bits(tensor):
    return tensor.detach().clone().view(torch.int32)


def alike(tensor):
    """True if all ranks have the same bits."""
    every = hvd.allgather(bits(tensor).reshape(1, -1))
    return bool((every == every[0]).all())


def case_a_flip_in_a_parameter_is_named_with_rank_step_and_both_values():
    net = network()
    optimizer = distributed(net)
    with reports() as said:
        steps(net, optimizer, 2)
        with after_step(optimizer, on_last(lambda: flip(net[1].bias, 1, 30))):
            step(net, optimizer)
        usual, broken = (hvd.broadcast(net[1].bias.detach(), r) for r in (0, last()))
        assert not said
        steps(net, optimizer, 3)
    assert len(said) == (hvd.rank() in (0, last()))
    for text in said:
        assert text.startswith(
            f'the replicas differ after step 3: "1.bias" (float32[2]) has another value on rank '
            f"{last()} than on rank 0: element [1] is {usual[1].item()!r} (0x"
        )
        assert (
            f"on rank 0, {broken[1].item()!r} (0x{bits(broken)[1].item() & 0xFFFFFFFF:08x})" in text
        )
        assert text.endswith("they may differ since step 3")


def case_a_flip_in_the_optimizers_state_is_named():
    for kind, name in ((torch.optim.Adam, "exp_avg"), (torch.optim.SGD, "momentum_buffer")):
        net = network()
        optimizer = distributed(net, kind)
        steps(net, optimizer, 2)
        state = optimizer.state[net[0].weight][name]
        with reports() as said:
            with after_step(optimizer, on_last(partial(flip, state, 7, 20))):
                step(net, optimizer)
            step(net, optimizer)
        assert len(said) == (hvd.rank() in (0, last()))
        for text in said:
            assert (
                f'"{name} of 0.weight" (float32[4, 3]) has another value on rank {last()}' in text
            )
            assert "element [2, 1] is " in text
            assert "since step 3" in text


def case_replicas_that_drift_are_found_in_their_first_step():
    net = network()
    optimizer = distributed(net)
    steps(net, optimizer, 1)

    def drift():
        with torch.no_grad():
            net[0].weight += 1e-6

    with reports() as said, after_step(optimizer, on_last(drift)):
        steps(net, optimizer, 20)
    assert bool(said) == (hvd.rank() in (0, last()))
    for text in said[:1]:
        assert f'"0.weight" (float32[4, 3]) has another value on rank {last()}' in text
        assert "since step 2" in text


def case_fail_is_the_same_error_on_all_ranks_before_the_next_step():
    net = network()
    optimizer = distributed(net)
    steps(net, optimizer, 1)
    with after_step(optimizer, on_last(lambda: flip(net[0].bias, 0, 3))):
        step(net, optimizer)
    before = bits(net[0].bias)
    with action("fail"), pytest.raises(ronde.MismatchError, match=r"after step 2: .0\.bias") as one:
        step(net, optimizer)
    assert torch.equal(before, bits(net[0].bias))
    texts = ronde.allgather_object(str(one.value))
    assert len(set(texts)) == 1


def case_repair_gives_the_values_of_most_ranks_and_says_so():
    net = network()
    optimizer = distributed(net, torch.optim.Adam)
    steps(net, optimizer, 1)

    def fault():
        flip(net[0].bias, 0, 31)
        flip(optimizer.state[net[1].weight]["exp_avg_sq"], 0, 22)
        optimizer.state[net[1].weight]["step"] += 1
        optimizer.param_groups[0]["lr"] = 0.5

    with reports() as said, action("repair"):
        with after_step(optimizer, on_last(fault)):
            step(net, optimizer)
        steps(net, optimizer, 2)
    assert len(said) == (hvd.rank() in (0, last()))
    for text in said:
        assert f'"lr of group 0" (float64[]) has another value on rank {last()}' in text
        assert "its value is 0.01 (0x3f847ae147ae147b) on rank 0, 0.5 (0x3fe" in text
        assert '; 3 more differ: "0.bias" (float32[4]) on rank' in text
        assert text.endswith("repaired: 4 tensors have the values of most ranks now")
    assert optimizer.check_replicas()
    assert all(map(alike, net.parameters()))
    assert optimizer.param_groups[0]["lr"] == 0.01


def case_the_rank_that_differs_from_most_is_named_even_if_it_is_rank_0():
    net = network()
    optimizer = distributed(net)
    if hvd.rank() == 0:
        flip(net[0].weight, 5, 9)
    with reports() as said, action("repair"):
        assert not optimizer.check_replicas()
        assert optimizer.check_replicas()
    odd, usual = (0, 1) if hvd.size() > 2 else (1, 0)  # of two values, that of the lowest counts
    for text in said:
        assert f"has another value on rank {odd} than on rank {usual}: element [1, 2]" in text
    assert len(said) == (hvd.rank() in (0, odd))


def case_several_ranks_that_differ_each_have_their_value_told():
    net = network()
    optimizer = distributed(net)
    with torch.no_grad():
        net[1].bias[0] = float(hvd.rank())
    with reports() as said:
        assert not optimizer.check_replicas()
    ranks = range(1, hvd.size())
    listed = f"rank{'s' * (len(ranks) > 1)} {', '.join(map(str, ranks))}"
    for text in said:
        assert f"has another value on {listed} than on rank 0: element [0] is 0.0 (0x0" in text
        assert all(f"{r}.0 (0x" in text and f") on rank {r}" in text for r in ranks)


def case_values_are_compared_by_their_bits():
    net = network()
    optimizer = distributed(net)
    with torch.no_grad():
        net[0].weight[0, 0] = float("nan")
        net[0].bias[0] = 0.0
    assert optimizer.check_replicas()
    for tensor in (net[0].weight, net[0].bias):
        if hvd.rank() == last():
            flip(tensor, 0, 31)  # -nan, -0.0
        with reports() as said, action("repair"):
            assert not optimizer.check_replicas()
        assert all("(0xff" in text or "-0.0 (0x80000000)" in text for text in said)
        assert optimizer.check_replicas()
        assert alike(tensor)


def case_every_type_is_compared_and_repaired():
    for kind in (torch.bfloat16, torch.float64, torch.float16, torch.complex64):
        weights = [nn.Parameter(torch.ones(s, dtype=kind)) for s in ((), (0,), (2, 3), (3, 2))]
        weights[-1] = nn.Parameter(weights[-2].detach().clone().t())
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD(weights, lr=0.1))
        assert optimizer.check_replicas()
        with torch.no_grad():
            weights[0] += float(hvd.rank() == last())
            weights[-1][1, 1] += float(hvd.rank() == last())
        with reports() as said, action("repair"):
            assert not optimizer.check_replicas()
        assert all("; 1 more differ" in text for text in said)
        assert optimizer.check_replicas()
        assert weights[0].item() == 1


def case_only_members_of_the_process_set_compare():
    if hvd.size() < 3:  # it would be the set of all ranks
        return
    pair = hvd.add_process_set([0, last()])
    net = network()
    if hvd.rank() == 1:
        flip(net[0].weight, 0, 22)
    with reports() as said:
        if pair.included():
            optimizer = distributed(net, process_set=pair)
            steps(net, optimizer, 2)
            assert optimizer.check_replicas()
            with after_step(optimizer, on_last(lambda: flip(net[0].bias, 0, 22))):
                step(net, optimizer)
            step(net, optimizer)
    assert len(said) == (hvd.rank() in (0, last()))
    hvd.remove_process_set(pair)


def case_ranks_that_have_joined_take_no_part():
    net = network()
    optimizer = distributed(net)
    steps(net, optimizer, 1)
    with reports() as said:
        if hvd.rank() == last():
            flip(net[0].weight, 0, 22)
            hvd.join()
            return
        steps(net, optimizer, 3)
        assert optimizer.check_replicas()
        hvd.join()
    assert not said


def case_state_that_one_rank_lacks_is_named():
    net = network()
    optimizer = distributed(net, torch.optim.Adam)
    steps(net, optimizer, 1)
    if hvd.rank() == 0:
        del optimizer.state[net[0].bias]["exp_avg"]
    with reports() as said, action("repair"):
        assert not optimizer.check_replicas()
    for text in said:
        assert '"exp_avg of 0.bias" (float32[4]) has another tensor on rank ' in text
        assert "1 that some ranks do not have are left as they are" in text
    assert len(said) >= (hvd.rank() == 0)


def case_further_tensors_are_listed_and_buffers_are_not_compared():
    net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Linear(4, 2))
    hvd.broadcast_parameters(net.state_dict(), 0)
    torch.manual_seed(hvd.rank())
    optimizer = distributed(net)
    with reports() as said:
        steps(net, optimizer, 4)
        assert optimizer.check_replicas(extra={"batch": 4})
        assert not said
        assert not optimizer.check_replicas(extra=dict(net.named_buffers()))
    assert all('"1.running_mean" (float32[4]) has another value' in text for text in said)
    with pytest.raises(ronde.ArgumentTypeError, match="extra must be a dictionary"):
        optimizer.check_replicas(extra=[net[0].weight])


def case_tensors_of_other_classes_are_not_compared():
    class Sharded(torch.Tensor):
        pass

    net = network()
    optimizer = distributed(net)
    own = torch.full((2,), float(hvd.rank()))
    assert optimizer.check_replicas(extra={"shard": own.as_subclass(Sharded)})
    assert optimizer.check_replicas(extra={"meta": own.to("meta")})


def case_two_optimizers_of_the_same_names_have_checks_of_their_own():
    nets = [network(), network()]
    optimizers = [distributed(net) for net in nets]
    with reports() as said:
        for _ in range(3):
            for net, optimizer in zip(nets, optimizers):
                step(net, optimizer)
        with after_step(optimizers[1], on_last(lambda: flip(nets[1][0].bias, 0, 20))):
            step(nets[1], optimizers[1])
        for _ in range(3):
            for net, optimizer in zip(nets, optimizers):
                step(net, optimizer)
        assert optimizers[0].check_replicas()
    assert len(said) >= (hvd.rank() in (0, last()))
    assert all('"0.bias"' in text for text in said)


def case_all_ways_to_step_compare():
    def adasum(net):
        return distributed(net, op=hvd.Adasum)

    def onebit(net):
        return hvd.OneBitAdam(net.named_parameters(), lr=0.01, warmup_steps=2)

    def flat(net):
        return distributed(net, flat_gradients=True)

    for make in (adasum, onebit, flat):
        net = network()
        optimizer = make(net)
        with reports() as said:
            steps(net, optimizer, 4)
            assert optimizer.check_replicas()
            assert not said
            if hvd.rank() == last():
                flip(net[0].weight, 0, 22)
            steps(net, optimizer, 2)
        assert len(said) >= (hvd.rank() in (0, last())), make
        for text in said[:1]:
            assert f'"0.weight" (float32[4, 3]) has another value on rank {last()}' in text


def case_steps_within_skip_synchronize_and_with_closures_compare():
    net = network()
    optimizer = distributed(net)
    with reports() as said:
        for _ in range(2):
            optimizer.zero_grad()
            net(torch.ones(2, 3)).square().mean().backward()
            optimizer.synchronize()
            with optimizer.skip_synchronize():
                optimizer.step()
        if hvd.rank() == last():
            flip(net[0].weight, 0, 22)

        def closure():
            optimizer.zero_grad()
            loss = net(torch.ones(2, 3)).square().mean()
            loss.backward()
            return loss

        optimizer.step(closure)
        optimizer.step(closure)
    assert len(said) == (hvd.rank() in (0, last()))
    assert all("after step 3" in text for text in said)


def places_of(net, optimizer):
    """(name, tensor) of everything that a flip may hit."""
    yield from net.named_parameters()
    for name, parameter in net.named_parameters():
        for key, value in optimizer.state[parameter].items():
            if value.dim():
                yield f"{key} of {name}", value


def case_200_drawn_flips_are_all_found_named_and_repaired_within_a_step():
    net = network()
    optimizer = distributed(net, torch.optim.Adam)
    steps(net, optimizer, 1)
    draw = random.Random(7)  # the same on all ranks
    start = {name: tensor.detach().clone() for name, tensor in places_of(net, optimizer)}
    with action("repair"):
        for number in range(200):
            name, tensor = draw.choice(list(places_of(net, optimizer)))
            where, bit = draw.randrange(tensor.numel()), draw.randrange(32)
            victim = draw.randrange(hvd.size())
            odd = 1 if hvd.size() == 2 else victim
            plant = partial(flip, tensor, where, bit) if hvd.rank() == victim else bool
            with reports() as said:
                with after_step(optimizer, plant):
                    step(net, optimizer)
                step(net, optimizer)
                assert len(said) == (hvd.rank() in (0, odd)), (number, name, said)
                for text in said:
                    found = SAID.search(text)
                    assert found, text
                    assert found.groups() == (str(2 * number + 2), name, str(odd)), text
            assert all(alike(tensor) for _, tensor in places_of(net, optimizer))
            with torch.no_grad():  # a flipped exponent may have spread
                for one, tensor in places_of(net, optimizer):
                    tensor.copy_(start[one])


def case_10000_healthy_steps_raise_no_alarm():
    if hvd.size() != 2:
        return
    for kind in (torch.optim.SGD, torch.optim.Adam):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.3), nn.Linear(4, 1))
        optimizer = distributed(net, kind)
        torch.manual_seed(hvd.rank())
        data = torch.randn(64, 3)
        with reports() as said, warnings.catch_warnings():
            for number in range(10_000 if kind is torch.optim.SGD else 2_000):
                optimizer.zero_grad()
                net(data[number % 56 :][:8]).square().mean().backward()
                optimizer.step()
        assert not said
        assert optimizer.check_replicas()
