"""Arrays of other libraries: what is made of them, on the host for real, and on CUDA without one.

No test needs a GPU: fakes offer the CUDA protocols. The core refuses their memory, or a test
replaces its submit().
"""

from __future__ import annotations

import ctypes
import gc
import weakref

import numpy as np
import pytest
import ronde
import torch
from ronde import _core
from ronde._collectives import arrays as _arrays

FLOAT32, BFLOAT16 = 7, 6


@pytest.fixture(scope="module", autouse=True)
def job():
    ronde.init(settings={"RONDE_RANK": 0, "RONDE_SIZE": 1})
    yield
    ronde.shutdown()


class OnCuda:
    """Offers `__cuda_array_interface__`, and says which device it is on as CuPy's arrays do."""

    def __init__(self, device=1, **interface):
        self.device = device
        self.__cuda_array_interface__ = {
            "shape": (2, 3),
            "typestr": "<f4",
            "data": (0x7000, False),
            "version": 3,
            "stream": 0x5000,
            **interface,
        }

    def __dlpack_device__(self):
        return 2, self.device


class ByCapsule:
    """Offers DLPack alone: a host array that says it is in CUDA memory."""

    def __init__(self, host, device=3):
        self.host, self.device, self.streams = host, device, []

    def __dlpack_device__(self):
        return 2, self.device

    def __dlpack__(self, stream=None):
        self.streams.append(stream)
        return self.host.__dlpack__()


class FakeCore:
    """Replaces the core's submit(): records the arguments and returns an output."""

    def __init__(self):
        self.given, self.taken, self.ordered = None, None, []
        self.buffer = OnCuda(data=(0x9000, False))

    def submit(self, runtime, kind, process_set, given, taken, *rest, **named):
        self.given, self.taken = given, taken
        return FakeHandle(self)


class FakeHandle:
    """Of an operation that has ended."""

    def __init__(self, core):
        self.core, self.functions = core, []

    def finish(self, function):
        self.functions.append(function)
        return self

    then = finish

    def wait(self, timeout=None):
        result = self
        for function in self.functions:
            result = function(result)
        return result

    def order_after(self, stream):
        self.core.ordered.append(stream)

    def output(self, index):
        return self.core.buffer, (4, 3)


@pytest.fixture
def core(monkeypatch):
    fake = FakeCore()
    monkeypatch.setattr(_core, "submit", fake.submit)
    return fake


def test_a_tensor_in_host_memory_is_used_in_place():
    tensor = torch.arange(5.0)
    array = _arrays.adapted(tensor)
    assert array.ctypes.data == tensor.data_ptr()
    assert ronde.allreduce(tensor, op=ronde.Sum, postscale_factor=2.0, out=tensor) is tensor
    assert tensor.tolist() == [0.0, 2.0, 4.0, 6.0, 8.0]


def test_an_output_that_is_not_contiguous_gets_the_result():
    target = torch.zeros(3, 2).t()
    ronde.allreduce(torch.ones(2, 3), op=ronde.Sum, out=target)
    assert target.tolist() == [[1.0] * 3] * 2


def test_what_is_no_array_and_what_is_read_only_is_no_output():
    with pytest.raises(ronde.InvalidArgumentError, match="out must be an array, not list"):
        ronde.allreduce(np.ones(2), out=[0.0, 0.0])
    fixed = np.ones(2)
    fixed.flags.writeable = False
    for target in (fixed, OnCuda(data=(0x7000, True))):
        with pytest.raises(ronde.InvalidArgumentError, match="read-only"):
            ronde.allreduce(np.ones(2), out=target)


def test_host_memory_that_numpy_has_no_name_for_is_an_error_of_ours():
    for tensor in (torch.zeros(2, dtype=torch.bfloat16), torch.zeros(2, requires_grad=True)):
        with pytest.raises(ronde.InvalidArgumentError, match="a Tensor whose memory"):
            ronde.allreduce(tensor)


def test_a_tensor_that_torch_negates_lazily_is_refused_for_input_and_output():
    negated = torch._neg_view(torch.ones(2))
    for given, options in ((negated, {}), (np.ones(2), {"out": negated})):
        with pytest.raises(ronde.InvalidArgumentError, match=r"pass tensor.resolve_neg\(\)"):
            ronde.allreduce(given, **options)


def test_the_cuda_array_interface_says_address_device_and_stream():
    assert _arrays.adapted(OnCuda()).view() == (0x7000, (2, 3), FLOAT32, 1, 0x5000)
    assert _arrays.adapted(OnCuda(strides=(12, 4))).view()[1] == (2, 3)
    assert _arrays.adapted(OnCuda(stream=None)).stream == 1
    assert _arrays.adapted(OnCuda(typestr="|b1")).dtype == "bool"


@pytest.mark.parametrize(
    ("interface", "text"),
    [
        ({"stream": 0}, "names stream 0"),
        ({"strides": (4, 8)}, "must be C-contiguous"),
        ({"typestr": ">f4"}, "element type >f4 is not supported"),
        ({"typestr": "<c8"}, "element type complex64 is not supported"),
        ({"mask": object()}, "mask"),
    ],
)
def test_what_the_core_cannot_take_of_the_cuda_array_interface_is_refused(interface, text):
    with pytest.raises(ronde.InvalidArgumentError, match=text):
        ronde.allreduce(OnCuda(**interface))


def test_dlpack_of_cuda_memory_is_asked_for_on_the_default_stream():
    host = np.arange(6, dtype=np.float32).reshape(2, 3)
    given = ByCapsule(host)
    assert _arrays.adapted(given).view() == (host.ctypes.data, (2, 3), FLOAT32, 3, 1)
    assert given.streams == [1]
    narrow = torch.zeros(4, 8, dtype=torch.bfloat16)[1:]
    view = _arrays.adapted(ByCapsule(narrow)).view()
    assert view == (narrow.data_ptr(), (3, 8), BFLOAT16, 3, 1)


def test_dlpack_of_cuda_memory_must_be_contiguous_and_of_a_known_type():
    with pytest.raises(ronde.InvalidArgumentError, match="must be C-contiguous"):
        ronde.allreduce(ByCapsule(torch.zeros(2, 3).t()))
    with pytest.raises(ronde.InvalidArgumentError, match="DLPack's kind 5 with 64 bits"):
        ronde.allreduce(ByCapsule(np.zeros(2, np.complex64)))


def test_memory_lent_by_dlpack_lives_as_long_as_the_array():
    tensor = torch.zeros(4)
    given = ByCapsule(tensor)
    lives, array = weakref.ref(given), _arrays.adapted(given)
    del given
    gc.collect()
    assert lives() is not None
    del array
    gc.collect()
    assert lives() is None


def test_a_device_that_no_data_plane_serves_is_named():
    array = ByCapsule(np.zeros(1))
    array.__class__ = type("Metal", (ByCapsule,), {"__dlpack_device__": lambda self: (8, 0)})
    with pytest.raises(ronde.InvalidArgumentError, match="DLPack's kind 8"):
        ronde.allreduce(array)


def test_without_a_driver_cuda_memory_is_refused_naming_the_device():
    with pytest.raises(ronde.UnsupportedError, match="is on cuda:1, which cannot be used here"):
        ronde.allreduce(OnCuda(), "gradient")


def test_the_driver_is_asked_where_the_producer_names_no_device(monkeypatch):
    class Driver:
        @staticmethod
        def cuPointerGetAttribute(into, attribute, pointer):
            assert (attribute, pointer.value) == (9, 0x7000)
            ctypes.cast(into, ctypes.POINTER(ctypes.c_int))[0] = 5
            return 0

    monkeypatch.setattr(ctypes, "CDLL", lambda name: Driver)
    nameless = type("Nameless", (), {"__cuda_array_interface__": OnCuda().__cuda_array_interface__})
    assert _arrays.adapted(nameless()).device == 5
    monkeypatch.setattr(Driver, "cuPointerGetAttribute", lambda *_: 1)
    with pytest.raises(ronde.InvalidArgumentError, match="does not know the memory at 0x7000"):
        ronde.allreduce(nameless())


def test_a_result_in_place_comes_back_as_the_callers_own_array(core):
    array = OnCuda()
    assert ronde.allreduce(array, out=array) is array
    assert core.given == core.taken == [(0x7000, (2, 3), FLOAT32, 1, 0x5000)]
    assert core.ordered == [0x5000]


def test_arrays_of_unlike_streams_in_one_operation_are_refused(core):
    arrays = [OnCuda(), OnCuda(stream=0x6000)]
    with pytest.raises(ronde.InvalidArgumentError, match=r"streams \(0x5000, 0x6000\)"):
        ronde.grouped_allreduce(arrays)
    with pytest.raises(ronde.InvalidArgumentError, match="several CUDA streams"):
        ronde.allreduce(arrays[0], out=arrays[1])
    assert core.given is None


def test_a_new_result_lies_where_the_operation_allocated_it(core):
    result = ronde.allreduce(OnCuda())
    assert core.taken == [None]
    assert (result.shape, result.dtype, result.device) == ((2, 3), "float32", 1)
    interface = result.__cuda_array_interface__
    assert (interface["data"], interface["typestr"]) == ((0x9000, False), "<f4")
    assert interface["stream"] == 0x5000
    assert ronde.allgather(OnCuda()).shape == (4, 3)


def test_a_result_is_no_input_before_its_operation_has_ended(core):
    made = _arrays.adapted(OnCuda()).like()
    with pytest.raises(ronde.InvalidArgumentError, match="before its operation has ended"):
        ronde.allreduce(made)
    assert ronde.allreduce_async(OnCuda()).wait().has_memory


def test_point_to_point_takes_host_memory_only():
    with pytest.raises(ronde.InvalidArgumentError, match="host memory only"):
        ronde.send(OnCuda(), 0)
