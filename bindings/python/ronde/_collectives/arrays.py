"""Arrays of other libraries, as the functions of `ronde` take them.

Two protocols describe an array's memory: DLPack (`__dlpack__`, `__dlpack_device__`) and, for CUDA
memory only, `__cuda_array_interface__`. Arrays in host memory become NumPy's without a copy, those
in CUDA memory a DeviceArray. A stream orders the use of a DeviceArray: the one that
`__cuda_array_interface__` names, else the legacy default stream, where DLPack's producer makes its
data ready. Work queued on that stream afterwards sees the results.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from ronde import _core
from ronde._errors import InvalidArgumentError, UnsupportedError

# Element types of the core, which have NumPy's names, that NumPy itself has not.
_NOT_OF_NUMPY = ("bfloat16", "float8_e4m3fn", "float8_e5m2")
_NAMES = tuple(_core.dtypes())  # by the core's numbers
_DLPACK_TYPES = _core.dlpack_types()  # (kind, bits), by the core's numbers
_CPU, _CUDA, _CUDA_HOST, _CUDA_MANAGED = 1, 2, 3, 13  # DLPack's kinds of devices
_LEGACY_STREAM = 1  # as both protocols call CUDA's default stream
_DEVICE_ORDINAL = 9  # the driver's number of the pointer attribute


class _DLTensor(ctypes.Structure):
    """The beginning of a DLPack capsule's struct."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_kind", ctypes.c_int32),
        ("device", ctypes.c_int32),
        ("dimensions", ctypes.c_int32),
        ("kind", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("offset", ctypes.c_uint64),
    )


class DeviceArray:
    """An array in CUDA memory: another library's, or a result of Ronde.

    It offers `__cuda_array_interface__`, so `cupy.asarray(result)` or
    `torch.as_tensor(result, device="cuda")` use it without a copy, ordered after the result.
    """

    def __init__(
        self, pointer: int, shape: Sequence[int], code: int, device: int, stream: int, owner: Any
    ) -> None:
        """`code` is the core's number of the element type; `owner` keeps the memory alive."""
        self.shape = tuple(shape)
        self.device = device
        self._pointer = pointer
        self._code = code
        self._stream = stream
        self._owner = owner

    @property
    def dtype(self) -> str:
        """The name of the element type, as NumPy has it: "float32", "bfloat16"."""
        return _NAMES[self._code]

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """The memory, as CUDA libraries exchange it."""
        if self.dtype in _NOT_OF_NUMPY:
            raise AttributeError(f"__cuda_array_interface__ has no name for {self.dtype}")
        return {
            "shape": self.shape,
            "typestr": np.dtype(self.dtype).str,
            "data": (self._pointer, False),
            "version": 3,
            "strides": None,
            "stream": self._stream,
        }

    def view(self) -> tuple[int, tuple[int, ...], int, int, int]:
        """Address, shape, element type, device and stream, as the core takes them."""
        return self._pointer, self.shape, self._code, self.device, self._stream

    @property
    def stream(self) -> int:
        """The CUDA stream that orders its use."""
        return self._stream

    def like(self, shape: Sequence[int] | None = None) -> DeviceArray:
        """An array of the same type, device and stream that has no memory yet; see fill()."""
        wanted = self.shape if shape is None else shape
        return DeviceArray(0, wanted, self._code, self.device, self._stream, None)

    @property
    def has_memory(self) -> bool:
        """True if it has memory. A result has memory once its operation has ended."""
        return self._owner is not None

    def fill(self, buffer: Any) -> None:
        """Sets the memory that an operation has allocated; None for no elements."""
        self._owner = self if buffer is None else buffer
        if buffer is not None:
            self._pointer = buffer.__cuda_array_interface__["data"][0]


DeviceArray.__module__ = "ronde"  # its public name


def adapted(array: Any) -> np.ndarray[Any, Any] | DeviceArray:
    """`array` as NumPy's or as a DeviceArray, over the same memory if possible.

    Raises InvalidArgumentError for unsupported element types, devices and layouts.
    """
    if type(array) is np.ndarray or isinstance(array, DeviceArray):
        return array
    if isinstance(array, np.ndarray):
        return _plain(array)
    _refuse_negated(array)
    if hasattr(array, "__cuda_array_interface__"):
        return _from_interface(array)
    if not hasattr(array, "__dlpack_device__"):
        return _from_values(array)
    kind, device = array.__dlpack_device__()
    if kind in (_CPU, _CUDA_HOST):
        return _from_host(array)
    if kind in (_CUDA, _CUDA_MANAGED):
        return _from_dlpack(array, int(device))
    raise InvalidArgumentError(
        f"the array is on a device of DLPack's kind {int(kind)}, which no data plane of this build "
        "serves; move it to the CPU"
    )


def writable(operation: str, array: Any) -> Any:
    """`array`, to receive results. Raises InvalidArgumentError if it is read-only."""
    if isinstance(array, DeviceArray):
        return array
    if type(array) is np.ndarray:
        read_only = not array.flags.writeable
    elif hasattr(array, "__cuda_array_interface__"):
        read_only = array.__cuda_array_interface__["data"][1]
    elif isinstance(array, np.ndarray) or hasattr(array, "__dlpack_device__"):
        memory = adapted(array)
        read_only = isinstance(memory, np.ndarray) and not memory.flags.writeable
    else:
        raise InvalidArgumentError(
            f"{operation}: out must be an array, not {type(array).__name__}; numpy.asarray(...) "
            "makes one"
        )
    if read_only:
        raise InvalidArgumentError(
            f"{operation}: out is a read-only {type(array).__name__}; give an array that can be "
            "written"
        )
    return array


def _refuse_negated(array: Any) -> None:
    """Raises for a tensor with PyTorch's neg bit, which neither protocol tells."""
    is_neg = getattr(array, "is_neg", None)
    if callable(is_neg) and is_neg() is True:
        raise InvalidArgumentError(
            f"a {type(array).__name__} that PyTorch negates lazily has the other sign in memory; "
            "pass tensor.resolve_neg()"
        )


def _plain(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """An array of a subclass over the same memory."""
    if isinstance(array, np.ma.MaskedArray):
        raise InvalidArgumentError(
            "a masked array cannot be used, as its mask would be lost; pass array.filled(...), or "
            "array.data where the mask does not matter"
        )
    return np.asarray(array)


def _from_values(values: Any) -> np.ndarray[Any, Any]:
    """An array of numbers, lists, or an object that NumPy takes."""
    try:
        return np.asarray(values)
    except (TypeError, ValueError) as error:
        raise InvalidArgumentError(
            f"a {type(values).__name__} is not an array, and NumPy makes none of it: {error}"
        ) from error


def _from_host(array: Any) -> np.ndarray[Any, Any]:
    try:
        return np.from_dlpack(array)
    except (BufferError, RuntimeError, TypeError) as error:
        raise InvalidArgumentError(
            f"a {type(array).__name__} whose memory cannot be used as NumPy's: {error}"
        ) from error


def _from_dlpack(array: Any, device: int) -> DeviceArray:
    try:
        capsule = array.__dlpack__(stream=_LEGACY_STREAM)
    except BufferError as error:
        raise InvalidArgumentError(
            f"a {type(array).__name__} gives its memory to nobody: {error}"
        ) from error
    pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
    pointer_of.restype = ctypes.c_void_p
    pointer_of.argtypes = (ctypes.py_object, ctypes.c_char_p)
    tensor = _DLTensor.from_address(pointer_of(capsule, b"dltensor"))
    if tensor.lanes != 1 or (tensor.kind, tensor.bits) not in _DLPACK_TYPES:
        raise _unsupported(f"of DLPack's kind {tensor.kind} with {tensor.bits} bits")
    code = _DLPACK_TYPES.index((tensor.kind, tensor.bits))
    shape = tensor.shape[: tensor.dimensions]
    strides = tensor.strides[: tensor.dimensions] if tensor.strides else None
    _check_layout(shape, strides)
    # The capsule frees its struct when it is collected, as it is not consumed.
    address = (tensor.data or 0) + tensor.offset
    return DeviceArray(address, shape, code, device, _LEGACY_STREAM, (array, capsule))


def _from_interface(array: Any) -> DeviceArray:
    interface = array.__cuda_array_interface__
    kind = np.dtype(interface["typestr"])
    if kind.name not in _NAMES or not kind.isnative:
        raise _unsupported(str(kind))
    if interface.get("mask") is not None:
        raise InvalidArgumentError("an array with a mask cannot be used")
    code, shape = _NAMES.index(kind.name), interface["shape"]
    strides = interface.get("strides")
    _check_layout(shape, strides and [stride // kind.itemsize for stride in strides])
    stream = interface.get("stream")
    if stream == 0:
        raise InvalidArgumentError(
            "__cuda_array_interface__ names stream 0, which it must not: 1 is the legacy default "
            "stream, 2 the thread's"
        )
    pointer = interface["data"][0] or 0
    device = _device_of(array, pointer)
    return DeviceArray(
        pointer, shape, code, device, _LEGACY_STREAM if stream is None else stream, array
    )


def _device_of(array: Any, pointer: int) -> int:
    """The device of memory: the one that the producer names, else the one that the driver names."""
    if hasattr(array, "__dlpack_device__"):
        return int(array.__dlpack_device__()[1])
    if pointer == 0:
        return 0
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise UnsupportedError(
            f"an array in CUDA memory without an NVIDIA driver: {error}"
        ) from None
    ordinal = ctypes.c_int()
    code = driver.cuPointerGetAttribute(
        ctypes.byref(ordinal), _DEVICE_ORDINAL, ctypes.c_uint64(pointer)
    )
    if code != 0:
        raise InvalidArgumentError(
            f"the driver does not know the memory at {pointer:#x} (CUDA error {code})"
        )
    return ordinal.value


def _unsupported(what: str) -> InvalidArgumentError:
    allowed = ", ".join(_NAMES)
    return InvalidArgumentError(f"element type {what} is not supported; allowed: {allowed}")


def _check_layout(shape: Sequence[int], strides: Sequence[int] | None) -> None:
    """Raises InvalidArgumentError unless the array is contiguous. Strides are in elements."""
    if strides is None or 0 in shape:
        return
    expected = 1
    for extent, stride in zip(reversed(shape), reversed(strides)):
        if extent != 1 and stride != expected:
            raise InvalidArgumentError(
                "an array in CUDA memory must be C-contiguous; pass a contiguous copy"
            )
        expected *= extent
