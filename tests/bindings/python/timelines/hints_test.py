"""What hints predict is what comes of them, on a link that decides how long steps take.

How long that is is told by the bytes that pass the link, not by a clock: what else the machine does
then decides nothing.
"""

import json
import re
import subprocess
import sys

from slow_link import run_ranks, slow_link

JOB = """
import json, os
os.environ.update({settings})
import numpy as np
import ronde

ronde.init()
rows = (50, 100, 200, 400)
gradients = [np.random.default_rng(i).random((n, 256), np.float32) for i, n in enumerate(rows)]


def sent_bytes():
    interfaces = [line.split(":") for line in open("/proc/net/dev") if ":" in line]
    return sum(int(counts.split()[8]) for name, counts in interfaces if name.strip() != "lo")


sent = []
for step in range(10):
    before = sent_bytes()
    handles = [ronde.allreduce_async(g, f"layer{{i}}") for i, g in enumerate(gradients)]
    for handle in handles:
        handle.wait()
    ronde.mark_step()
    sent.append(sent_bytes() - before)
print(json.dumps(sorted(sent)[len(sent) // 2]))
"""


def step_bytes(hosts, folder, settings):
    """The bytes that a rank sends in the middle step of the job with these settings."""
    folder.mkdir()
    return json.loads(run_ranks(hosts, JOB.format(settings=settings), folder)[0])


def hinted(folder, words):
    """(least, most) that the report of the traces in `folder` says a change saves, as shares."""
    command = [sys.executable, "-m", "ronde", "timeline", "report", "-o", folder / "page.html"]
    traces = sorted(folder.glob("trace.rank*.json"))
    text = subprocess.run([*command, *traces], check=True, capture_output=True, text=True).stdout
    told = re.search(r"-(?:(\d+) to )?(\d+) %\s+[^:]*" + re.escape(words), text)
    assert told, text
    most = int(told[2]) / 100
    return (int(told[1]) / 100 if told[1] else most), most


def test_compression_saves_what_the_hint_says(tmp_path):
    apart = {"RONDE_FUSION_THRESHOLD": "0"}
    with slow_link("25mbit", "16kb") as hosts:
        before = step_bytes(hosts, tmp_path / "before", apart)
        after = step_bytes(hosts, tmp_path / "after", {**apart, "RONDE_COMPRESSION": "fp16"})
    least, most = hinted(tmp_path / "before", "Compression.fp16")
    saved = 1 - after / before
    assert least / 1.5 < saved < most * 1.5
