"""The classes that Python makes of the registry of codecs, and their types in the package."""

import ast
import inspect
import pickle
from pathlib import Path

import pytest
import ronde
from ronde import _core
from ronde._codecs import NamedCompressor
from ronde._compression.choice import AnyCompression as Compression

NAMES = [row["name"] for row in _core.codecs()]
TYPES = Path(ronde.__file__).with_name("_codec_classes.pyi")


@pytest.mark.parametrize("name", NAMES)
def test_a_codec_is_used_as_a_class_or_as_an_instance(name):
    codec = getattr(Compression, name)
    assert codec.wire == codec().wire == name
    assert "residual: " in codec.__doc__


def test_arguments_become_the_text_that_the_core_reads():
    c = Compression
    assert c.int8(128, True, 7).wire == "int8:block=128,rounding=stochastic,seed=7"
    assert c.int8(stochastic=False, error_feedback=True).wire == "int8"
    assert c.fp16(error_feedback=True).wire == "fp16:ef=on"
    assert c.onebit(64, False, "fp32", 3).wire == "onebit:block=64,warmup=3,ef=off,residual=fp32"
    assert c.powersgd(rank=2, warmup=0).wire == "powersgd:warmup=0,rank=2"
    deep = c.topk(ratio=0.1, sampled=True, momentum=0.9, nesterov=True, masking=False, clip=1)
    assert deep.wire == (
        "topk:ratio=0.1,select=sampled,momentum=0.9,nesterov=on,masking=off,clip=1"
    )
    assert c.auto(accuracy="aggressive").wire == "auto:accuracy=aggressive"


def test_what_a_codec_does_not_have_is_an_error_that_names_what_it_has():
    with pytest.raises(TypeError, match=r"Compression\.int8: .*'ratio'.*allowed: block, stochas"):
        Compression.int8(ratio=0.1)
    with pytest.raises(TypeError, match=r"Compression\.auto: too many.*accuracy, residual"):
        Compression.auto("safe", "fp32", 1)
    with pytest.raises(AttributeError, match=r"no 'int5'; codecs: none, fp16, .*auto"):
        _ = Compression.int5


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Compression.int8(block=100), "block=100; allowed: "),
        (lambda: Compression.int8(block="many"), "block=many; allowed: "),
        (lambda: Compression.topk(ratio=2), "ratio=2; allowed: "),
        (lambda: Compression.topk(ratio=0), "ratio=0; allowed: "),
        (lambda: Compression.topk(momentum=1.5), "momentum=1.5; allowed: "),
        (lambda: Compression.topk(error_feedback=False, residual="bf16"), "needs ef=on"),
        (lambda: Compression.powersgd(rank=0), "rank=0; allowed: "),
        (lambda: Compression.auto(accuracy="best"), "accuracy=best; allowed: "),
        (lambda: NamedCompressor("int9"), "'int9': not known; allowed: "),
        (lambda: NamedCompressor("int8:blok=64"), "no parameter 'blok'; allowed: "),
    ],
)
def test_wrong_values_are_refused_when_a_codec_is_made(make, said):
    with pytest.raises(ronde.InvalidArgumentError, match=said):
        make()


def test_classes_have_names_and_can_be_pickled():
    for name in NAMES:
        codec = getattr(Compression, name)
        assert codec.__name__.lower() == f"{name}compressor"
        assert pickle.loads(pickle.dumps(codec)) is codec
        assert pickle.loads(pickle.dumps(codec())).wire == name


def test_the_package_has_types_of_every_codec():
    tree = ast.parse(TYPES.read_text())
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    names = {node.targets[0].id: node.value.id for node in classes["Codecs"].body[1:]}
    assert list(names) == NAMES
    for name in NAMES:
        codec = getattr(Compression, name)
        node = classes[names[name]]
        assert names[name] == codec.__name__
        assert ast.get_docstring(node) == inspect.getdoc(codec)
        written = [
            f"{one.arg}: {ast.unparse(one.annotation)}" for one in node.body[-1].args.args[1:]
        ]
        defaults = [ast.unparse(default) for default in node.body[-1].args.defaults]
        made = inspect.signature(codec).parameters.values()
        assert written == [f"{one.name}: {one.annotation}" for one in made]
        assert defaults == [str(one.default) for one in made]
