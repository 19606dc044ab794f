"""Cases for DistributedOptimizer(shard=..., compression=...)."""

import copy

import pytest
import ronde
import ronde.torch as hvd
import torch
from ronde.torch._sharded.differences import Arriving
from sharded_models import WAYS, assert_alike, assert_same, distributed, tied, train

RANKS = (2, 4)
OPTIONS = ("--env", "RONDE_DETERMINISTIC=1")
C = hvd.Compression


def quantised(trained, codec=C.int8, shard="optimizer", **options):
    """By rule, as most parameters are small."""
    return distributed(trained, shard=shard, compression={"*": codec}, **options)


def exact_ones(optimizer):
    """Of each bucket: this rank's part of the parameters, and its exact values."""
    kept = [bucket.differences for bucket in optimizer._buckets]
    assert all(kept)
    return [(one.own, one.master) for one in kept]


def still(optimizer):
    """Steps change nothing from now on."""
    for group in optimizer.param_groups:
        group.update(lr=0.0, weight_decay=0.0)


def case_all_ranks_have_the_same_parameters_near_those_of_the_dense_optimizer():
    plain = tied()
    begin = [p.detach().clone() for p in plain.parameters()]
    expected = train(plain, distributed(plain), steps=6)
    moved = sum((one - two).norm() for one, two in zip(expected, begin))
    for codec, tolerance in ((C.bf16, 0.05), (C.int8, 0.1), (C.int4, 0.5), ("auto", 1e-3)):
        for way in WAYS:
            model = tied()
            optimizer = quantised(model, codec, way, model=model)
            found = train(model, optimizer, steps=6)
            optimizer.wait_for_parameters()
            assert_alike(list(model.parameters()))
            off = sum((one - two).norm() for one, two in zip(model.parameters(), expected))
            assert off < tolerance * moved, (codec, way, off, moved)
            assert len(found) == len(expected)


def case_parameters_follow_the_exact_values_of_their_owner():
    for codec, steps in ((C.int8, 1), (C.int4, 2)):
        model = tied()
        optimizer = quantised(model, codec)
        train(model, optimizer)
        pairs = exact_ones(optimizer)
        behind = max((own - exact).abs().max() for own, exact in pairs if own.numel())
        assert behind > 0
        before = [exact.clone() for _, exact in pairs]
        still(optimizer)
        train(model, optimizer, steps=steps)
        assert_same([exact for _, exact in pairs], before)
        for own, exact in pairs:
            assert torch.allclose(own, exact, atol=float(behind) / 10), codec
        assert_alike(list(model.parameters()))


def case_states_continue_with_the_same_bits():
    model = tied()
    optimizer = quantised(model)
    train(model, optimizer)
    weights, residuals = copy.deepcopy(model.state_dict()), C.state_dict()
    whole, own = copy.deepcopy(optimizer.state_dict()), optimizer.state_dict(sharded=True)
    own = copy.deepcopy(own)
    expected = train(model, optimizer, first=3)
    for state, optimizer_first in ((whole, True), (whole, False), (own, False)):
        again = tied()
        optimizer = quantised(again, shard="gradients")
        if optimizer_first:
            optimizer.load_state_dict(state)
        again.load_state_dict(weights)
        if not optimizer_first:
            optimizer.load_state_dict(state)
        C.load_state_dict(residuals)
        assert_same(train(again, optimizer, first=3), expected)
    for options in ({}, {"shard": "optimizer"}):  # they know nothing of exact values
        other = tied()
        other.load_state_dict(weights)
        optimizer = distributed(other, **options)
        optimizer.load_state_dict(whole)
        train(other, optimizer, first=3)
        assert_alike(list(other.parameters()))


def case_a_shard_of_another_layout_is_refused_on_all_ranks():
    model = tied()
    optimizer = distributed(model, shard="optimizer")
    train(model, optimizer)
    shard = optimizer.state_dict(sharded=True)
    other = tied()
    other.load_state_dict(model.state_dict())
    resumed = quantised(other)
    with pytest.raises(ronde.MismatchError, match=r"elements \d+ to \d+.*merge_sharded_states"):
        resumed.load_state_dict(shard)
    resumed.load_state_dict(hvd.merge_sharded_states(hvd.allgather_object(shard)))
    found, expected = resumed.state_dict()["state"], optimizer.state_dict()["state"]
    assert all(found[n]["exp_avg"].equal(one["exp_avg"]) for n, one in expected.items())


class Ended:
    """A handle whose waits give these errors, one after the other; None: none."""

    def __init__(self, *errors):
        self.errors = list(errors)

    def wait(self, timeout=None):
        error = self.errors.pop(0)
        if error is not None:
            raise error


def case_an_error_of_returning_differences_is_raised_at_every_wait():
    applied = []
    failed = Arriving(Ended(*[ronde.RankFailure("gone")] * 3), lambda: applied.append("failed"))
    for _ in range(3):
        with pytest.raises(ronde.RankFailure):
            failed.wait(timeout=0.05)
    late = Arriving(Ended(ronde.TimeoutError("not yet"), None), lambda: applied.append("late"))
    with pytest.raises(ronde.TimeoutError):
        late.wait(timeout=0.05)
    assert not late.done()
    for _ in range(2):
        late.wait()
    assert late.done()
    assert applied == ["late"]


def case_values_that_other_code_gives_to_parameters_count():
    model = tied()
    optimizer = quantised(model)
    train(model, optimizer)
    with torch.no_grad():
        model.inner.weight.fill_(0.25)
        model.inner.bias.data = torch.full_like(model.inner.bias, 0.5)
    still(optimizer)
    train(model, optimizer)
    assert (model.inner.weight == 0.25).all()
    assert (model.inner.bias == 0.5).all()


def case_blocks_end_with_their_parameter():
    model = torch.nn.Sequential(torch.nn.Linear(33, 31), torch.nn.Linear(31, 1))
    with torch.no_grad():
        model[0].weight.mul_(1e-4)  # beside values that are much larger
    optimizer = quantised(model, C.int8(block=256))
    for bucket in optimizer._buckets:
        assert all(start % 256 == 0 for start in bucket.starts)


def case_what_sharded_optimizers_cannot_compress_is_refused():
    class Own:
        """Halves of Horovod's kind."""

        @staticmethod
        def compress(tensor):
            return tensor, None

        @staticmethod
        def decompress(tensor, _):
            return tensor

    model = tied()
    for codec in (C.topk(ratio=0.1), C.powersgd, C.onebit, Own, {"*": C.randomk}):
        with pytest.raises(ronde.InvalidArgumentError, match="allowed: fp16, bf16, int8, int4"):
            distributed(model, shard="optimizer", compression=codec)
    with pytest.raises(ronde.UnsupportedError, match="whole tensors sends them as they are"):
        quantised(model, shard_by="tensors")


def case_ranks_with_different_codecs_all_learn_of_it():
    model = tied()
    optimizer = quantised(model, C.int8 if hvd.rank() == 0 else C.int8(block=64))
    with pytest.raises(ronde.MismatchError):
        train(model, optimizer, steps=1)
