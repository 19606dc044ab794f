"""Cases for parameters that change under a DistributedOptimizer."""

import copy
import itertools
import pickle
import warnings

import pytest
import ronde
import ronde.torch as hvd
import torch
from ronde._training.gradients import GradientOptions
from torch import nn
from torch.nn.utils import parametrizations, prune

names = itertools.count()
PLAIN = ({}, {"num_groups": 1}, {"gradient_predivide_factor": 2.0}, {"flat_gradients": True})
CODECS = [
    {"compression": one}
    for one in (
        hvd.Compression.fp16,
        hvd.Compression.int8(64),
        hvd.Compression.onebit,
        hvd.Compression.topk(0.5),
        hvd.Compression.powersgd(2),
    )
]


class Custom:
    """A compressor of a user's own."""

    @staticmethod
    def compress(tensor):
        return tensor.half(), tensor.dtype

    @staticmethod
    def decompress(tensor, context):
        return tensor.to(context)


def optimizer_of(parameters, lr=0.1, **options):
    number = next(names)
    named = [(f"changing{number}.{i}", p) for i, p in enumerate(parameters)]
    return hvd.DistributedOptimizer(torch.optim.SGD(parameters, lr=lr), named, **options)


def step(optimizer, loss, passes=1):
    optimizer.zero_grad()
    for _ in range(passes):
        loss().backward()
    optimizer.step()


def assert_alike(parameters):
    for parameter in parameters:
        mine = parameter.detach().contiguous()
        assert torch.equal(hvd.broadcast(mine, 0), mine)


def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 2))


def loss_of(model, like=None):
    given = torch.randn(3, 4, generator=torch.Generator().manual_seed(hvd.rank()))
    return lambda: model(given if like is None else given.to(like)).pow(2).mean()


def assert_averages(weight, optimizer, passes=1):
    """Two steps whose gradients are known: rank + 1 for each element, in each pass."""
    for _ in range(2):
        before = weight.detach().clone()
        step(optimizer, lambda: weight.sum() * (hvd.rank() + 1), passes)
        mean = passes * (hvd.size() + 1) / 2
        assert weight.grad.shape == weight.shape
        assert torch.allclose(weight.grad, torch.full_like(weight, mean), rtol=1e-3)
        assert torch.allclose(weight.detach(), before - 0.1 * mean, rtol=1e-3)


def case_a_parameter_of_another_size_is_averaged_whole():
    for options, passes in [*((o, 1) for o in [*PLAIN, *CODECS]), ({}, 2), (PLAIN[3], 2)]:
        weight = nn.Parameter(torch.ones(60, 4))
        how = {**options, "backward_passes_per_step": passes}
        optimizer = optimizer_of([weight, nn.Parameter(torch.ones(3))], **how)
        for rows in (60, 7, 500, 0, 60):
            weight.data = torch.ones(rows, 4)
            assert_averages(weight, optimizer, passes)


def case_a_parameter_changes_size_after_zero_grad():
    for options in [*PLAIN, *CODECS, {"compression": Custom}]:
        first, weight = nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(60, 4))
        optimizer = optimizer_of([first, weight], **options)
        for rows in (60, 7, 500):
            optimizer.zero_grad()
            weight.data = torch.ones(rows, 4)
            (first.sum() + weight.sum() * (hvd.rank() + 1)).backward()
            optimizer.step()
            mean = torch.full_like(weight, (hvd.size() + 1) / 2)
            assert torch.allclose(weight.grad, mean, rtol=1e-3)


def case_an_unused_parameter_of_another_size_gets_zeros():
    for options in PLAIN:
        used, unused = nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(60, 4))
        optimizer = optimizer_of([used, unused], **options)
        unused.data = torch.ones(70, 4)
        used.sum().backward()
        optimizer.step()
        assert unused.grad.shape == (70, 4)
        assert not unused.grad.any()


def case_a_parameter_of_another_dtype_or_layout_is_averaged():
    for options in [*PLAIN, *CODECS]:
        for change in (
            lambda w: w.double(),
            lambda w: w.half(),
            lambda w: w.t().contiguous().t(),
            lambda w: w.reshape(-1).clone(),
        ):
            weight = nn.Parameter(torch.ones(12, 4))
            optimizer = optimizer_of([weight], **options)
            assert_averages(weight, optimizer)
            weight.data = change(torch.ones(12, 4))
            assert_averages(weight, optimizer)


def case_a_model_of_another_dtype_or_layout_trains_on():
    for options in [*PLAIN, *CODECS]:
        for change in ("double", "bfloat16", "channels_last", "share_memory"):
            torch.manual_seed(0)
            model = nn.Sequential(nn.Conv2d(2, 3, 3), nn.Flatten(), nn.Linear(27, 2))
            optimizer = optimizer_of(list(model.parameters()), **options)
            given = torch.randn(1, 2, 5, 5) + hvd.rank()
            step(optimizer, lambda: model(given).pow(2).mean())  # noqa: B023
            if change == "channels_last":
                model.to(memory_format=torch.channels_last)
            else:
                getattr(model, change)()
            like = next(model.parameters()).dtype
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # torch's, of gradients' layout
                for _ in range(2):
                    step(optimizer, lambda: model(given.to(like)).pow(2).mean())  # noqa: B023
            assert_alike(model.parameters())


def case_a_replaced_parameter_is_averaged():
    for options in [*PLAIN, *CODECS, {"groups": [], "backward_passes_per_step": 2}]:
        model = net()
        optimizer = optimizer_of(list(model.parameters()), **options)
        passes = options.get("backward_passes_per_step", 1)
        step(optimizer, loss_of(model), passes)
        for seed in (1, 2):
            torch.manual_seed(seed)
            model[2] = nn.Linear(6, 2)
            optimizer.param_groups[0]["params"][-2:] = list(model[2].parameters())
            before = model[2].weight.detach().clone()
            for _ in range(2):
                step(optimizer, loss_of(model), passes)
                assert_alike(model.parameters())
            assert not torch.equal(before, model[2].weight)


def case_cleared_groups_take_other_parameters():
    for options in PLAIN:
        old, model = net(), net()
        optimizer = optimizer_of(list(old.parameters()), **options)
        step(optimizer, loss_of(old))
        optimizer.param_groups.clear()
        optimizer.add_param_group({"params": list(model.parameters())})
        for _ in range(2):
            step(optimizer, loss_of(model))
            assert_alike(model.parameters())
        assert not torch.equal(model[0].weight, net()[0].weight)
        assert len(optimizer._gradients) == 4


def case_parameters_that_come_and_go_are_averaged_while_they_are_there():
    for options in PLAIN:
        model = net()
        model[0].requires_grad_(False)
        optimizer = optimizer_of(list(model.parameters()), **options)
        step(optimizer, loss_of(model))
        model[0].requires_grad_(True)  # unfrozen
        extra = nn.Parameter(torch.ones(2, 4))  # as LoRA's
        optimizer.add_param_group({"params": [extra]})
        loss = loss_of(model)
        step(optimizer, lambda: loss() + (extra * hvd.rank()).sum())  # noqa: B023
        assert extra.grad.eq((hvd.size() - 1) / 2).all()
        model[2].requires_grad_(False)
        gone = optimizer.param_groups[0]["params"].pop(0)
        step(optimizer, lambda: loss() + (extra * hvd.rank()).sum())  # noqa: B023
        assert gone not in optimizer._gradients
        assert extra.grad.eq((hvd.size() - 1) / 2).all()
        gone.grad = None
        optimizer.param_groups[0]["params"].insert(0, gone)
        model[2].requires_grad_(True)
        step(optimizer, loss)
        assert_alike([*model.parameters(), extra])


def case_a_parameter_added_after_backward_is_averaged_in_that_step():
    for options in PLAIN:
        model, extra = net(), nn.Parameter(torch.ones(5))
        optimizer = optimizer_of(list(model.parameters()), **options)
        loss = loss_of(model)
        optimizer.zero_grad()
        (loss() + (extra * hvd.rank()).sum()).backward()
        optimizer.add_param_group({"params": [extra]})
        optimizer.step()
        assert extra.grad.eq((hvd.size() - 1) / 2).all()
        assert_alike([*model.parameters(), extra])


def case_loaded_pruned_and_parametrized_models_train_on():
    for options in (PLAIN[0], PLAIN[3], CODECS[1]):
        model = net()
        optimizer = optimizer_of(list(model.parameters()), **options)
        loss = loss_of(model)
        step(optimizer, loss)
        prune.l1_unstructured(model[0], "weight", 0.5)
        step(optimizer, loss)
        prune.remove(model[0], "weight")
        parametrizations.spectral_norm(model[2])
        step(optimizer, loss)
        fresh = {name: value.clone() for name, value in model.state_dict().items()}
        model.load_state_dict(fresh, assign=True)
        optimizer.param_groups[0]["params"] = list(model.parameters())
        step(optimizer, loss)
        assert_alike(model.parameters())


def case_tied_weights_are_averaged_once():
    torch.manual_seed(0)
    table, head = nn.Embedding(5, 4), nn.Linear(4, 5, bias=False)
    optimizer = optimizer_of([table.weight, head.weight])
    head.weight = table.weight
    for _ in range(2):
        step(optimizer, lambda: head(table(torch.tensor([hvd.rank()]))).pow(2).sum())
        assert_alike([table.weight])


def case_a_grown_sparse_table_is_averaged():
    for options in ({}, {"sparse_as_dense": True}):
        table = nn.Embedding(4, 2, sparse=True)
        optimizer = optimizer_of([table.weight], **options)
        for rows in (4, 9):
            table.weight.data = torch.ones(rows, 2)
            step(optimizer, lambda: table(torch.tensor([rows - 1])).sum() * hvd.rank())  # noqa: B023
            assert table.weight[-1].tolist() == pytest.approx([1 - 0.05 * (hvd.size() - 1)] * 2)


def case_adasum_of_changed_parameters():
    model = net()
    optimizer = optimizer_of(list(model.parameters()), op=hvd.Adasum)
    step(optimizer, loss_of(model))
    model[0].weight.data = torch.ones(7, 4)
    model[0].bias.data = torch.ones(7)
    torch.manual_seed(1)
    model[2] = nn.Linear(7, 2)
    optimizer.param_groups[0]["params"][-2:] = list(model[2].parameters())
    for _ in range(2):
        step(optimizer, loss_of(model))
        assert_alike(model.parameters())


def case_lazy_modules_are_averaged_once_they_have_a_shape():
    for options in [*PLAIN, *CODECS, {"op": hvd.Adasum}, {"backward_passes_per_step": 2}]:
        torch.manual_seed(0)
        model = nn.Sequential(nn.LazyLinear(6), nn.Tanh(), nn.Linear(6, 2), nn.LazyLinear(3))
        optimizer = optimizer_of(list(model.parameters()), **options)
        for _ in range(2):
            step(optimizer, loss_of(model), options.get("backward_passes_per_step", 1))
            assert_alike(model.parameters())


def case_a_gradient_given_other_memory_in_flight_is_an_error():
    for options in (PLAIN[0], PLAIN[3]):
        weight = nn.Parameter(torch.ones(300, 400))
        optimizer = optimizer_of([weight], **options)
        optimizer.zero_grad()
        (weight.sum() * (hvd.rank() + 1)).backward()
        weight.grad.data = torch.zeros(300, 400)
        with pytest.raises(ValueError, match=r"changing\d+\.0.* was changed while its average"):
            optimizer.step()
        weight.grad = None
        assert_averages(weight, optimizer)


def case_data_of_another_shape_between_backward_and_step_is_an_error():
    weight, other = nn.Parameter(torch.ones(4, 4)), nn.Parameter(torch.ones(2))
    optimizer = optimizer_of([weight, other], num_groups=1)
    weight.sum().backward()  # the group is not complete yet
    weight.data = torch.ones(5, 4)
    with pytest.raises(
        ValueError, match=r"changing\d+\.0 has the shape \[5, 4\], but its gradient has \[4, 4\]"
    ):
        optimizer.step()
    weight.grad = None
    assert_averages(weight, optimizer)


def case_a_parameter_that_is_nowhere_is_an_error_with_its_name():
    for options in (PLAIN[0], PLAIN[3]):
        with pytest.raises(ValueError, match=r"changing\d+\.0.* is on meta"):
            optimizer_of([nn.Parameter(torch.ones(3, device="meta"))], **options)


def case_a_change_on_one_rank_is_an_error_with_the_name():
    def resized(model, optimizer):
        model[2].weight.data, model[2].bias.data = torch.ones(3, 6), torch.ones(3)

    def frozen(model, optimizer):
        model[2].weight.requires_grad_(False)

    def replaced(model, optimizer):
        model[2].weight = nn.Parameter(torch.ones(2, 6))
        optimizer.param_groups[0]["params"][2] = model[2].weight

    kinds = [*((options, 0) for options in PLAIN), ({}, 20)]
    for change, (options, many) in itertools.product((resized, frozen, replaced), kinds):
        model = nn.Sequential(*net(), *[nn.Linear(2, 2) for _ in range(many)])
        optimizer = optimizer_of(list(model.parameters()), **options)
        step(optimizer, loss_of(model[:3]))
        if hvd.rank() == 0:
            change(model, optimizer)
        with pytest.raises(ronde.MismatchError, match=r"changing\d+\.2"):
            step(optimizer, loss_of(model[:3]))


def case_a_sparse_table_of_another_size_on_one_rank_is_an_error():
    table = nn.Embedding(4 + (hvd.rank() == 0), 2, sparse=True)
    optimizer = optimizer_of([table.weight])
    with pytest.raises(ronde.MismatchError, match=r"\"changing.* a sparse tensor of \[4, 2\]"):
        step(optimizer, lambda: table(torch.tensor([0])).sum())


def case_a_model_made_again_trains_though_the_old_one_is_kept():
    kept = []
    for options in [*PLAIN, {"compression": Custom}]:
        for _ in range(3):
            model = net()
            inner = torch.optim.SGD(model.parameters(), lr=0.1)
            optimizer = hvd.DistributedOptimizer(inner, model.named_parameters(), **options)
            step(optimizer, loss_of(model))
            assert_alike(model.parameters())
            optimizer.zero_grad()
            loss_of(model)().backward()  # in flight, and forgotten
            kept.append(optimizer)
    for optimizer in kept:
        optimizer.synchronize()


def case_a_new_optimizer_takes_the_model_over():
    for options in PLAIN:
        model = net()
        old = optimizer_of(list(model.parameters()), **options)
        step(old, loss_of(model))
        loss_of(model)().backward()
        optimizer = optimizer_of(list(model.parameters()), **options)
        for _ in range(2):
            step(optimizer, loss_of(model))
            assert_alike(model.parameters())
        with pytest.raises(ValueError, match=r"has let go of its parameters: .* made another one"):
            old.step()


def case_optimizers_are_not_pickled_or_copied():
    for options in ({}, {"op": hvd.Adasum}):
        optimizer = optimizer_of([nn.Parameter(torch.ones(2))], **options)
        for copied in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(TypeError, match=r"cannot be pickled or copied.*state_dict\(\)"):
                copied(optimizer)


def case_missing_and_double_names_are_shown_by_shape():
    model = net()
    named = list(model.named_parameters())
    inner = torch.optim.SGD(model.parameters(), lr=0.1)
    missing = (
        r"2 of the optimizer's 4 are missing: number 2, float32\[2, 6\] after 0.bias; number 3"
    )
    with pytest.raises(ValueError, match=missing):
        hvd.DistributedOptimizer(inner, named[:2])
    double = r"Found duplicates: x \(float32\[6, 4\], float32\[6\]\); .* give each name a prefix"
    with pytest.raises(ValueError, match=double):
        hvd.DistributedOptimizer(inner, [("x", p) for _, p in named[:2]] + named[2:])


def case_lazy_modules_cannot_be_broadcast_before_they_have_a_shape():
    model = nn.Sequential(nn.LazyLinear(4))
    for give in (model, model.state_dict(), model.named_parameters()):
        with pytest.raises(
            ValueError, match=r"0\.\w+ is not initialized yet.* call the model once"
        ):
            hvd.broadcast_parameters(give, 0)
    with pytest.raises(ValueError, match=r"the model's 0\.weight is not initialized yet"):
        hvd.elastic.TorchState(model=model)
    if hvd.rank() == 0:
        model(torch.ones(2, 3))
    with pytest.raises(ronde.MismatchError, match="not initialized yet"):
        hvd.broadcast_parameters(model, 0)


def case_states_give_resized_models_their_shape_back():
    model = net()
    state = hvd.elastic.TorchState(model=model)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    model[2].weight.data, model[2].bias.data = torch.ones(9, 6), torch.ones(9)
    state.restore()
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    model[2].weight.data, model[2].bias.data = torch.ones(1, 6), torch.ones(1)
    state.save()
    model[2].weight.data.zero_()
    state.restore()
    assert torch.equal(model[2].weight, torch.ones(1, 6))


def case_one_bit_adam_refuses_parameters_that_its_state_is_not_for():
    weight, later = nn.Parameter(torch.ones(40, 4)), nn.Parameter(torch.ones(2))
    optimizer = hvd.OneBitAdam([("table", weight)], warmup_steps=2)
    step(optimizer, lambda: weight.sum() * hvd.rank())
    weight.data = torch.ones(50, 4)
    with pytest.raises(ValueError, match=r"table is float32\[50, 4\], but its state is .*40, 4"):
        step(optimizer, lambda: weight.sum() * hvd.rank())
    del optimizer.state[weight]
    step(optimizer, lambda: weight.sum() * hvd.rank())
    optimizer.add_param_group({"params": [later], "steps": 2})
    with pytest.raises(ValueError, match=r"added\.1 came when the variance was frozen"):
        step(optimizer, lambda: weight.sum() * hvd.rank() + later.sum())


def case_a_variable_is_not_taken_for_a_local_one_that_is_gone():
    class Variable:
        pass

    options = GradientOptions()
    options.add_local(Variable())
    assert GradientOptions.key(Variable()) not in options.local  # Python uses its address again
