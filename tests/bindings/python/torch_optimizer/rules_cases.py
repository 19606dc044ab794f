"""Rules of compression."""

import pytest
import ronde.torch as hvd
import torch
from ronde import InvalidArgumentError, MismatchError
from torch import nn

C = hvd.Compression


class Model(nn.Module):
    """Matrices of 6000 and 600 elements, one of 6000 in halves, a bias, and a filter."""

    def __init__(self):
        super().__init__()
        self.large = nn.Parameter(torch.ones(60, 100))
        self.small = nn.Parameter(torch.ones(6, 100))
        self.halves = nn.Parameter(torch.ones(60, 100, dtype=torch.float16))
        self.bias = nn.Parameter(torch.ones(5000))
        self.filter = nn.Parameter(torch.ones(20, 30, 3, 3))


def optimizer_of(compression, prefix):
    model = Model()
    named = [(f"{prefix}.{name}", p) for name, p in model.named_parameters()]
    sgd = torch.optim.SGD(model.parameters(), lr=0.1)
    return model, hvd.DistributedOptimizer(sgd, named, compression=compression)


def step(model, optimizer):
    for place, parameter in enumerate(model.parameters()):
        generator = torch.Generator().manual_seed(10 * place + hvd.rank())
        parameter.grad = torch.randn(parameter.shape, generator=generator).to(parameter.dtype)
    optimizer.step()


def kept(compression, prefix):
    """The names of what a codec with error feedback keeps something of."""
    step(*optimizer_of(compression, prefix))
    names = {name for _, name in C.state_dict()["residuals"]}
    return {name.split(".")[1] for name in names if name.startswith(f"{prefix}.")}


def case_rules_choose_by_size():
    everything = {"large", "small", "halves", "bias", "filter"}
    assert kept([C.rule(use=C.int8)], "size0") == everything
    assert kept([C.rule(min_elements=6000, use=C.int8)], "size1") == {"large", "halves"}
    assert kept([C.rule(max_elements=5000, use="int4")], "size2") == {"small", "bias"}
    assert kept([C.rule(min_elements=601, max_elements=5400, use=C.int8())], "size3") == {
        "bias",
        "filter",
    }


def case_rules_choose_by_dtype_and_dimensions():
    assert kept([C.rule(dtype=torch.float16, use=C.int8)], "dtype0") == {"halves"}
    assert kept([C.rule(dtype="float16", use=C.int8)], "dtype1") == {"halves"}
    both = (torch.float16, torch.bfloat16)
    assert kept([C.rule(dtype=both, dims=2, use=C.int8)], "dtype2") == {"halves"}
    assert kept([C.rule(dims=1, use=C.int8)], "dims0") == {"bias"}
    assert kept([C.rule(dims=range(3, 9), use=C.int8)], "dims1") == {"filter"}


def case_the_first_rule_that_fits_counts_and_what_none_fits_stays_as_it_is():
    rules = [
        C.rule("*.small", use=C.none),
        C.rule("*.s*", use=C.int4),
        C.rule(dims=2, dtype=torch.float32, use=C.int8(residual="bf16")),
    ]
    assert kept(rules, "first") == {"large"}
    assert kept([], "none") == set()


def case_a_function_chooses():
    def choose(name, parameter):
        if name.endswith("large"):
            return C.int8
        return "int4" if parameter.dim() == 4 else None

    assert kept(choose, "function") == {"large", "filter"}
    assert kept(lambda name, parameter: C.int8(), "anew") == {
        "large",
        "small",
        "halves",
        "bias",
        "filter",
    }


def case_rules_decide_without_a_warm_up_as_a_dictionary_does():
    def loses(compression, prefix):
        weight = nn.Parameter(torch.zeros(128, 128))
        sgd = torch.optim.SGD([weight], lr=1.0)
        optimizer = hvd.DistributedOptimizer(
            sgd, [(f"{prefix}.weight", weight)], compression=compression
        )
        weight.grad = torch.arange(128.0).expand(128, 128).clone()
        optimizer.step()
        return not torch.allclose(weight, -torch.arange(128.0).expand(128, 128))

    assert not loses(C.topk, "plain")
    assert loses([C.rule(use=C.topk)], "ruled")
    assert not loses([C.rule(use=C.topk(warmup=100))], "warm")


def case_bad_rules_are_errors_when_given():
    for message, arguments in (
        (r"name=3; allowed: a pattern", {"name": 3}),
        (r"min_elements=-1; allowed: whole numbers from 0", {"min_elements": -1}),
        (r"min_elements=1\.5", {"min_elements": 1.5}),
        (r"max_elements=True", {"max_elements": True}),
        (r"max_elements=3 is less than min_elements=4", {"min_elements": 4, "max_elements": 3}),
        (r"dtype=torch\.int32; allowed: float16", {"dtype": torch.int32}),
        (r"dtype='half'; allowed: float16", {"dtype": "half"}),
        (r"dtype=\[\]", {"dtype": []}),
        (r"dims=-2", {"dims": -2}),
        (r"dims='2'", {"dims": "2"}),
        (r"dims=\[\]", {"dims": []}),
    ):
        with pytest.raises(InvalidArgumentError, match=f"rule: {message}"):
            C.rule(**arguments, use=C.int8)
    with pytest.raises(InvalidArgumentError, match="'int9'"):
        C.rule(use="int9")
    with pytest.raises(InvalidArgumentError, match=r"block=100"):
        C.rule(use=C.int8(block=100))
    with pytest.raises(TypeError, match=r"^Compression\.rule\(\) missing .*'use'"):
        C.rule("*.weight")
    with pytest.raises(TypeError, match=r"^Compression\.rule\(\) got an unexpected .*'min_size'"):
        C.rule(use=C.int8, min_size=3)


def case_what_is_no_rule_is_an_error_of_the_optimizer():
    for wrong, message in (
        ([C.int8], r"consists of Compression\.rule"),
        ([{"*": C.int8}], r"consists of Compression\.rule"),
        (C.rule(use=C.int8), "pass a list"),
        (lambda name, parameter: 3, r'for "wrong\.large": compression must be one of'),
        (lambda name, parameter: "int9", r'for "wrong\.large": .*int9'),
    ):
        with pytest.raises(InvalidArgumentError, match=message):
            optimizer_of(wrong, "wrong")
    rules = [C.rule(use=C.int8)]
    for call in (hvd.allreduce, hvd.reducescatter):
        with pytest.raises(InvalidArgumentError, match="compression must be one of"):
            call(torch.ones(4, 4), compression=rules)
    with pytest.raises(InvalidArgumentError, match="compression must be one of"):
        hvd.allreduce(torch.ones(4), compression={"*": "int8"})


def case_rules_that_no_name_fits_warn():
    with pytest.warns(UserWarning, match=r"no parameter fits 'encoder\.\*'; there are idle"):
        optimizer_of([C.rule("encoder.*", use=C.int8), C.rule(use=C.none)], "idle")


def case_ranks_with_different_rules_all_raise_the_same_error():
    bound = 6000 if hvd.rank() == 0 else 6001
    model, optimizer = optimizer_of([C.rule(min_elements=bound, use=C.int8)], "differ")
    with pytest.raises(MismatchError, match=r'compression "int8".*compression ""'):
        step(model, optimizer)
    mean = hvd.allreduce(torch.full((3,), float(hvd.rank())), name="after the rules")
    assert mean.tolist() == [(hvd.size() - 1) / 2] * 3


def case_one_bit_adam_follows_rules():
    model = Model().float()
    named = [(f"adam.{name}", p) for name, p in model.named_parameters()]
    rules = [C.rule(max_elements=5000, dims=1, use=C.onebit)]
    optimizer = hvd.OneBitAdam(named, lr=0.01, warmup_steps=1, compression=rules)
    for _ in range(2):
        for parameter in model.parameters():
            parameter.grad = torch.ones_like(parameter)
        optimizer.step()
    names = {name for _, name in C.state_dict()["residuals"]}
    assert {name for name in names if name.startswith("adam.")} == {"adam.bias.momentum"}
