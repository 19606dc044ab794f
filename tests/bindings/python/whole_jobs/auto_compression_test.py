"""Compression "auto" on a slow link, between real processes on two pretended hosts."""

import json

from slow_link import run_ranks, slow_link

SCRIPT = """
import json, sys
import ronde, ronde.torch as hvd
import torch

hvd.init()
gradient = torch.randn((512, 512), generator=torch.Generator().manual_seed(hvd.rank()))
facts = {}
for accuracy in ("lossless", "safe", "aggressive"):
    for step in range(6):
        mean = hvd.allreduce(gradient, name=accuracy, compression=f"auto:accuracy={accuracy}")
    everyone = hvd.allgather(mean.flatten()[None], name="same")
    exact = hvd.allreduce(gradient, name="exact")
    error = float((mean - exact).norm() / exact.norm())
    facts[accuracy] = {"alike": bool((everyone == everyone[0]).all()), "error": error}
losses = hvd.Compression.errors()
facts["lost"] = {name: lost / result for (_, name), (lost, result) in losses.items()}
print(json.dumps(facts))
"""


def test_auto_compresses_on_a_slow_link_within_its_class_and_alike_everywhere(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("RONDE_COMPRESSION_ERROR", "1")
    with slow_link("100mbit", "32kb") as hosts:
        told = run_ranks(hosts, SCRIPT, tmp_path)
    for out in told:
        facts = json.loads(out)
        lost = facts.pop("lost")
        assert set(lost) == {"aggressive"}
        assert lost["aggressive"] > 0
        assert all(one["alike"] for one in facts.values()), facts
        assert facts["lossless"]["error"] == 0
        assert 0 < facts["safe"]["error"] < 0.01
        assert facts["aggressive"]["error"] > 0.005
    trace = next(tmp_path.glob("trace.rank0*.json")).read_text()
    assert "compression auto: 1.05 MB" in trace
    assert '"wire_bytes"' in trace
    assert "compression error of aggressive" in trace
    assert '"decompress_us"' in trace
