"""Cases for compression of NumPy's arrays."""

import warnings

import numpy as np
import pytest
import ronde


class Halved:
    """A compressor of the user's own: sends halves, and doubles the result."""

    @staticmethod
    def compress(array):
        return array / 2, None

    @staticmethod
    def decompress(array, ctx):
        return array * 2


def mine(shape=(64, 64)):
    return np.random.default_rng(ronde.rank()).standard_normal(shape).astype(np.float32)


def case_arrays_travel_by_every_codec_and_by_text():
    exact = ronde.allreduce(mine())
    codecs = ronde.Compression
    for name, compression in {
        "fp16": codecs.fp16,
        "bf16": codecs.bf16,
        "int8": codecs.int8,
        "text": "int8:block=128",
        "instance": codecs.int8(block=64),
        "fp16 text": "fp16",
    }.items():
        result = ronde.allreduce(mine(), f"codec.{name}", compression=compression)
        assert (result.dtype, result.shape) == (np.float32, (64, 64))
        error = np.abs(result - exact).max()
        assert 0 < error < 0.1, name
    for plain in (codecs.none, "none", Halved):
        np.testing.assert_allclose(
            ronde.allreduce(mine(), compression=plain), exact, rtol=1e-6, atol=1e-6
        )


def case_compressed_results_go_where_the_caller_says():
    out = np.zeros((64, 64), np.float32)
    for compression in (ronde.Compression.int8, Halved):
        handle = ronde.allreduce_async(mine(), "to.out", out=out, compression=compression)
        assert handle.wait() is out
        assert np.abs(out - ronde.allreduce(mine())).max() < 0.1
        for wrong in (np.zeros((64, 64)), np.zeros((64, 1), np.float32)):
            with pytest.raises(ronde.InvalidArgumentError, match="out has shape"):
                ronde.allreduce(mine(), "to.out", out=wrong, compression=compression)
    both = ronde.grouped_allreduce(
        [mine(), mine((70, 3))], "group", compression=ronde.Compression.bf16
    )
    assert [one.shape for one in both] == [(64, 64), (70, 3)]


def case_integers_are_left_alone_by_casts_once_said_and_refused_by_other_codecs():
    whole = np.full(3, ronde.rank(), np.int32)
    total = sum(range(ronde.size()))
    for compression in (ronde.Compression.fp16, "fp16", ronde.Compression.bf16):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for _ in range(2):
                result = ronde.allreduce(whole, op=ronde.Sum, compression=compression)
                assert result.tolist() == [total] * 3
        said = [one for one in caught if "int32 are sent as they are" in str(one.message)]
        assert len(said) == (0 if compression == "fp16" else 1)  # once a process and codec
        assert all(one.filename == __file__ for one in said)
    for compression in (ronde.Compression.int8, "topk"):
        with pytest.raises(ronde.InvalidArgumentError, match="int32"):
            ronde.allreduce(whole, compression=compression)
    with pytest.raises(ronde.InvalidArgumentError, match="int9"):
        ronde.allreduce(mine(), compression="int9")
    with pytest.raises(ronde.InvalidArgumentError, match="compression must be"):
        ronde.allreduce(mine(), compression=8)


def case_residuals_of_arrays_are_saved_and_restored():
    def step():
        return ronde.allreduce(mine(), "kept", compression=ronde.Compression.onebit)

    step()
    state = ronde.Compression.state_dict()
    assert ronde.Compression.memory() > 0
    second = step()
    ronde.Compression.load_state_dict(state)
    np.testing.assert_array_equal(step(), second)
