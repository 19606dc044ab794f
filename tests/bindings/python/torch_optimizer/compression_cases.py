"""Cases for Compression."""

import warnings

import pytest
import ronde.torch as hvd
import torch
from ronde import InvalidArgumentError, MismatchError
from torch import nn

C = hvd.Compression
WIRES = [C.fp16, C.bf16, C.int8, C.int4, C.onebit]
SPARSE = [C.topk, C.randomk]
LOW_RANK = [C.powersgd]


def gradients(rank, shape=(64, 65)):
    generator = torch.Generator().manual_seed(rank)
    return torch.randn(shape, generator=generator)


def exact(shape=(64, 65)):
    return sum(gradients(rank, shape) for rank in range(hvd.size())) / hvd.size()


def same_everywhere(tensor):
    everyone = hvd.allgather(tensor.flatten()[None], name="same")
    return bool((everyone == everyone[0]).all())


def case_every_codec_works_without_arguments_and_gives_all_ranks_the_same_bits():
    for codec, tolerance in zip(WIRES + SPARSE + LOW_RANK, (1e-3, 8e-3, 0.03, 0.4, 2.5, 1, 1, 1)):
        for number, form in enumerate((codec, codec())):
            name = f"every.{form.wire}.{number}"
            mean = hvd.allreduce(gradients(hvd.rank()), name=name, compression=form)
            error = (mean - exact()).norm() / exact().norm()
            assert 0 < error < tolerance, (form.wire, error)
            assert same_everywhere(mean), form.wire


def case_an_int8_mean_is_two_roundings_away():
    rank, n = hvd.rank(), hvd.size()
    mean = hvd.allreduce(gradients(rank, (512,)), compression=C.int8(error_feedback=False))
    step = max(gradients(r, (512,)).abs().max().item() / n for r in range(n)) / 127
    limit = (n - 1) * step / 2 + exact((512,)).abs().max().item() / 127
    assert (mean - exact((512,))).abs().max() <= limit


def case_compressed_averages_of_other_types_and_shapes():
    for dtype in (torch.float16, torch.bfloat16, torch.float64):
        mean = hvd.allreduce(gradients(hvd.rank()).to(dtype), compression=C.int8)
        assert mean.dtype == dtype
        assert (mean.double() - exact()).norm() / exact().norm() < 0.03
    for shape in ((0,), (1,), (3, 0), ()):
        one = hvd.allreduce(torch.ones(shape), compression=C.int4, name="tiny")
        assert torch.allclose(one, torch.ones(shape), rtol=1e-5)


def case_what_a_step_loses_comes_later():
    for codec in (C.int4, C.onebit, C.int8(stochastic=True, seed=3), C.fp16(error_feedback=True)):
        mine = gradients(hvd.rank())
        steps = 100
        total = sum(
            hvd.allreduce(mine, name=f"later.{codec.wire}", compression=codec) for _ in range(steps)
        )
        with_feedback = (total / steps - exact()).norm() / exact().norm()
        assert with_feedback < 0.1, (codec.wire, with_feedback)


def case_without_error_feedback_what_is_lost_stays_lost():
    mine = gradients(hvd.rank())
    without = C.onebit(error_feedback=False)
    first = hvd.allreduce(mine, name="lossy", compression=without)
    assert torch.equal(hvd.allreduce(mine, name="lossy", compression=without), first)


def case_a_step_with_infinity_arrives_and_does_not_poison_the_next():
    name = {"name": "overflow", "compression": C.int4}
    mine = gradients(hvd.rank())
    hvd.allreduce(mine, **name)
    before = C.state_dict()["residuals"][0, "overflow"][1].clone()
    broken = mine.clone()
    if hvd.rank() == 0:
        broken[3, 3] = float("inf")
    assert not torch.isfinite(hvd.allreduce(broken, **name)[3, 3])
    after = C.state_dict()["residuals"][0, "overflow"][1]
    assert torch.equal(before, after)
    assert torch.isfinite(hvd.allreduce(mine, **name)).all()


def case_a_saved_state_resumes_exactly():
    name = {"name": "resumed", "compression": C.int4(stochastic=True)}
    mine = gradients(hvd.rank())
    hvd.allreduce(mine, **name)
    state = C.state_dict()
    kept = {key: (steps, values.clone()) for key, (steps, values) in state["residuals"].items()}
    wanted = [hvd.allreduce(mine, **name) for _ in range(3)]
    C.load_state_dict({"version": 1, "residuals": kept})
    assert all(torch.equal(hvd.allreduce(mine, **name), one) for one in wanted)
    assert C.memory() >= mine.numel() * 4
    with pytest.raises(InvalidArgumentError, match="state_dict"):
        C.load_state_dict({})


def case_residuals_in_bf16_take_half_the_memory_and_lose_nothing():
    C.load_state_dict({"version": 1, "residuals": {}})
    mine = gradients(hvd.rank())
    for codec in (C.int4(residual="bf16"), C.topk(ratio=0.05, residual="bf16")):
        name = {"name": f"half.{codec.wire}", "compression": codec}
        before = C.memory()
        total = sum(hvd.allreduce(mine, **name) for _ in range(100))
        assert C.memory() - before == mine.numel() * 2
        assert (total / 100 - exact()).norm() / exact().norm() < 0.15, codec.wire
        state = C.state_dict()
        wanted = hvd.allreduce(mine, **name)
        C.load_state_dict(state)
        assert torch.equal(hvd.allreduce(mine, **name), wanted), codec.wire
    with pytest.raises(InvalidArgumentError, match="residual=fp16; allowed: fp32, bf16"):
        hvd.allreduce(mine, compression=C.int8(residual="fp16"))
    with pytest.raises(InvalidArgumentError, match="residual=bf16 needs ef=on"):
        hvd.allreduce(mine, compression=C.fp16(residual="bf16"))


def case_ranks_that_disagree_about_a_codec_all_raise_the_same_error():
    mine = C.int8 if hvd.rank() == 0 else C.int8(block=64)
    with pytest.raises(MismatchError, match=r'compression "int8".*compression "int8:block=64"'):
        hvd.allreduce(torch.ones(5), name="disagreed", compression=mine)
    same = C.int8 if hvd.rank() == 0 else C.int8(block=512)
    hvd.allreduce(torch.ones(5), name="agreed", compression=same)


def case_integers_that_a_cast_leaves_alone_are_said_once():
    whole = torch.tensor([2, 3])
    for expected in (1, 0):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            result = hvd.allreduce(whole, op=hvd.Sum, compression=hvd.Compression.bf16)
            hvd.grouped_allreduce([whole, torch.ones(3)], compression=hvd.Compression.bf16)
        assert result.tolist() == [2 * hvd.size(), 3 * hvd.size()]
        said = [one for one in caught if "int64 are sent as they are" in str(one.message)]
        assert len(said) == expected
        assert all(one.filename == __file__ for one in said)
    with pytest.raises(InvalidArgumentError, match="int64"):
        hvd.allreduce(whole, compression=hvd.Compression.int8)


def case_bad_codecs_are_errors_with_the_value():
    ones = torch.ones(4)
    with pytest.raises(InvalidArgumentError, match="block=100"):
        hvd.allreduce(ones, compression=C.int8(block=100))
    with pytest.raises(InvalidArgumentError, match="int32"):
        hvd.allreduce(ones.int(), compression=C.int8)
    with pytest.raises(InvalidArgumentError, match="ratio=0; allowed: above 0, up to 1"):
        hvd.allreduce(ones, compression=C.topk(ratio=0))
    with pytest.raises(InvalidArgumentError, match="rank=0; allowed: whole numbers from 1"):
        hvd.allreduce(ones, compression=C.powersgd(rank=0))
    with pytest.raises(InvalidArgumentError, match=r"momentum=1[.]5"):
        hvd.allreduce(ones, compression=C.topk(momentum=1.5))
    with pytest.raises(InvalidArgumentError, match="op max"):
        hvd.allreduce(ones, op=hvd.Max, compression=C.onebit)
    for codec in (C.topk, C.powersgd, C.onebit):
        for call in (hvd.reducescatter, hvd.allgather):
            with pytest.raises(InvalidArgumentError, match="allowed: fp16, bf16, int8, int4, auto"):
                call(torch.ones(4, 4), compression=codec)
    with pytest.raises(InvalidArgumentError, match="op max"):
        hvd.reducescatter(ones, op=hvd.Max, compression=C.int8)


def rows_of(rank, size, rows=65):
    begin = sum(rows // size + (one < rows % size) for one in range(rank))
    return slice(begin, begin + rows // size + (rank < rows % size))


def case_chunks_are_rounded_once():
    rank, n = hvd.rank(), hvd.size()
    shape = (65, 33)
    for codec, step in ((C.fp16, 1e-3), (C.bf16, 1 / 128), (C.int8, 1 / 254), (C.int4, 1 / 14)):
        bound = sum(gradients(r, shape).abs().max() for r in range(n)) * step / n + 1e-6
        name = {"name": f"chunks.{codec.wire}", "compression": codec}
        mine = hvd.reducescatter(gradients(rank, shape), **name)
        assert (mine - exact(shape)[rows_of(rank, n)]).abs().max() <= bound, codec.wire
        pair = [gradients(rank, shape), gradients(rank + 9, (5, 2)).bfloat16()]
        several = hvd.grouped_reducescatter_async(pair, compression=codec).wait()
        assert several[1].dtype == torch.bfloat16
        assert (several[0] - exact(shape)[rows_of(rank, n)]).abs().max() <= bound, codec.wire
        own = gradients(rank, (rank + 2, 700))
        every = hvd.allgather(own, **name)
        assert same_everywhere(every), codec.wire
        whole = torch.cat([gradients(r, (r + 2, 700)) for r in range(n)])
        assert (every - whole).abs().max() <= whole.abs().max() * step, codec.wire
        again = hvd.grouped_allgather_async([own, own.double()], compression=codec).wait()
        assert again[0].equal(every)
        assert again[1].dtype == torch.float64


def case_what_a_chunk_loses_comes_later():
    mine, steps = gradients(hvd.rank()), 100
    for codec in (C.int4, C.int8):
        name = {"name": f"chunk later.{codec.wire}", "compression": codec}
        total = sum(hvd.reducescatter(mine, **name) for _ in range(steps))
        off = total / steps - exact()[rows_of(hvd.rank(), hvd.size(), 64)]
        assert off.abs().max() < 0.02, codec.wire


def case_chunks_of_a_process_set_and_ranks_that_disagree():
    if hvd.size() > 2:
        pair = hvd.add_process_set([0, 2])
        if pair.included():
            ones = torch.ones(6, 4) * (hvd.rank() + 1)
            mean = hvd.reducescatter(ones, process_set=pair, compression=C.int8)
            assert torch.allclose(mean, torch.full((3, 4), 2.0))
            every = hvd.allgather(ones, process_set=pair, compression=C.int8)
            assert torch.allclose(every[:6], torch.ones(6, 4))
        hvd.remove_process_set(pair)
    codec = C.int8 if hvd.rank() == 0 else C.int4
    for call in (hvd.reducescatter, hvd.allgather):
        with pytest.raises(MismatchError, match='compression "int8"'):
            call(torch.ones(8, 4), name="disagree", compression=codec)


def train(compression, steps=60):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(20, 64), nn.Tanh(), nn.Linear(64, 4))
    data = torch.randn(64 * hvd.size(), 20)
    target = data[:, :4].argmax(dim=1)
    mine = slice(64 * hvd.rank(), 64 * hvd.rank() + 64)
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.2),
        model.named_parameters(),
        compression={"*.weight": compression},  # by rule, as they are small
    )
    for _ in range(steps):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(data[mine]), target[mine]).backward()
        optimizer.step()
    weights = torch.cat([p.detach().flatten() for p in model.parameters()])
    return nn.functional.cross_entropy(model(data), target).item(), weights


def case_top_k_learns_with_error_feedback_and_visibly_worse_without():
    dense, _ = train(C.none, steps=200)
    kept, weights = train(C.topk(ratio=0.01), steps=200)
    lost, _ = train(C.topk(ratio=0.01, error_feedback=False), steps=200)
    assert same_everywhere(weights)
    assert kept < dense * 1.6 + 0.02, (kept, dense)
    assert lost > kept * 1.5, (lost, kept)


def case_momentum_correction_stands_in_for_the_optimizers():
    options = {"ratio": 0.05, "momentum": 0.9, "warmup": 20, "clip": 10.0}
    for codec in (C.topk(**options), C.topk(nesterov=True, sampled=True, masking=False, **options)):
        loss, weights = train(codec)
        assert loss < train(C.none)[0] * 1.15 + 0.01, codec.wire
        assert same_everywhere(weights)


def case_training_with_every_codec_is_as_good_as_without():
    dense, _ = train(C.none)
    for codec in WIRES + LOW_RANK:
        loss, weights = train(codec)
        assert loss < dense * 1.15 + 0.01, (codec.wire, loss, dense)
        assert same_everywhere(weights), codec.wire


def case_biases_stay_as_they_are_and_rules_choose_by_name():
    def kept(compression, number):
        model = nn.Linear(70, 70)
        named = [(f"rules{number}.{name}", p) for name, p in model.named_parameters()]
        optimizer = hvd.DistributedOptimizer(
            torch.optim.SGD(model.parameters(), lr=0.1), named, compression=compression
        )
        model(torch.ones(2, 70)).sum().backward()
        optimizer.step()
        names = {name for _, name in C.state_dict()["residuals"]}
        return {name.split(".")[1] for name in names if name.startswith(f"rules{number}.")}

    assert kept(C.int8, 1) == {"weight"}
    assert kept({"*.bias": C.int4, "*": C.none}, 2) == {"bias"}
    assert kept({"nothing": C.int4}, 3) == set()
    assert kept(C.int8(error_feedback=False), 4) == set()


def case_codecs_that_send_little_leave_small_tensors_alone():
    def kept(compression, number):
        model = nn.Sequential(nn.Linear(127, 128), nn.Linear(128, 128))
        named = [(f"small{number}.{name}", p) for name, p in model.named_parameters()]
        optimizer = hvd.DistributedOptimizer(
            torch.optim.SGD(model.parameters(), lr=0.1), named, compression=compression
        )
        model(torch.ones(2, 127)).sum().backward()
        optimizer.step()
        names = {name for _, name in C.state_dict()["residuals"] if "#" not in name}
        return {name[7:] for name in names if name.startswith(f"small{number}.")}

    for number, codec in enumerate((C.onebit, C.topk(ratio=0.1), C.randomk, "powersgd:rank=2")):
        assert kept(codec, number) == {"1.weight"}, codec
    assert kept(C.int4, 4) == {"0.weight", "1.weight"}
    assert kept({"*.weight": C.topk}, 5) == {"0.weight", "1.weight"}


def case_training_begins_dense_where_a_codec_sends_little():
    def one_step(codec, number):
        weight = nn.Parameter(torch.zeros(128, 128))
        named = [(f"warm{number}.weight", weight)]
        optimizer = hvd.DistributedOptimizer(
            torch.optim.SGD([weight], lr=1.0), named, compression=codec
        )
        (weight * torch.arange(128.0)).sum().backward()
        optimizer.step()
        return torch.allclose(weight, -torch.arange(128.0).expand(128, 128), rtol=1e-6)

    for number, name in enumerate(("onebit", "topk", "randomk", "powersgd")):
        codec = getattr(C, name)
        assert one_step(codec, number), name
        assert one_step(name, f"name{number}"), name
        assert not one_step(codec(warmup=0), f"none{number}") or name == "powersgd", name
    assert not one_step(C.topk(error_feedback=False), "lossy")


def case_what_is_loaded_after_a_warm_up_begins_another():
    codec = C.onebit(warmup=2)

    def is_dense(name="reloaded"):
        given = torch.arange(4096.0).view(64, 64)
        return bool((hvd.allreduce(given, name=name, compression=codec) == given).all())

    state = C.state_dict()
    assert [is_dense() for _ in range(4)] == [True, True, False, False]
    C.load_state_dict(state)  # as it was before
    assert [is_dense() for _ in range(4)] == [True, True, False, False]
    if hvd.rank() == 0:
        C.load_state_dict(state)
    with pytest.raises(MismatchError, match="since load 2"):
        is_dense()
    assert hvd.allreduce(torch.ones(3), name="after a load", compression=C.int8).tolist() == [1] * 3
    if hvd.rank() != 0:
        C.load_state_dict(state)
    assert [is_dense() for _ in range(4)] == [True, True, False, False]


def case_groups_are_divided_by_what_travels_how():
    model = nn.Linear(70, 70)
    named = [(f"grouped.{name}", p) for name, p in model.named_parameters()]
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.1), named, compression=C.int8, num_groups=1
    )
    model(torch.ones(2, 70)).sum().backward()
    optimizer.step()
    assert (0, "grouped.weight") in C.state_dict()["residuals"]


def case_ranks_that_have_joined_count_as_zeros():
    if hvd.rank() == 0:
        mean = hvd.allreduce(torch.full((100, 50), 2.0), name="after", compression=C.int8)
        assert torch.allclose(mean, torch.full((100, 50), 2.0 / hvd.size()), rtol=0.02)
    hvd.join()


def case_integers_pass_through_casts():
    whole = hvd.allreduce(torch.ones(4, dtype=torch.int64), op=hvd.Sum, compression=C.bf16)
    assert whole.tolist() == [hvd.size()] * 4
