"""Real training jobs with one planted cause each, or none, and what the report says of them.

    python tests/bindings/python/timelines/planted.py --count 100     # 100 of each kind; JSON lines
    python tests/bindings/python/timelines/planted.py --seed 17 --only loader

What is drawn (ranks, steps, who, how much) follows from the seed; when processes get a core does
not.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import random
import re
import subprocess
import sys
import tempfile
from pathlib import Path

WORKER = """
import json, sys, time
import numpy as np
import ronde

plan = json.loads(sys.argv[1])
ronde.init()
mine = ronde.rank() == plan["rank"]
slow = lambda part: plan["extra_s"] if mine and plan["kind"] == part else 0.0
gradients = [np.ones(plan["elements"], np.float32) for _ in range(plan["tensors"])]
for step in range(plan["steps"]):
    with ronde.mark_span("data"):
        time.sleep(0.002 + slow("loader"))
    with ronde.mark_span("forward"):
        if plan["kind"] == "crowd":
            end = time.process_time() + plan["compute_s"]
            while time.process_time() < end:
                pass
        else:
            time.sleep(plan["compute_s"] + slow("rank"))
    if plan["kind"] == "tiny":
        for i, gradient in enumerate(gradients):
            ronde.allreduce(gradient, name=f"layer{i}")
    else:
        handles = [ronde.allreduce_async(g, f"layer{i}") for i, g in enumerate(gradients)]
        for handle in handles:
            handle.wait()
    ronde.mark_step()
"""
TOLD = Path("/proc/thread-self/schedstat")  # where the kernel tells who stands without a core
CROWDED = re.compile(r"ranks share the \d+ core|without a core")  # by a container, maybe
KINDS = ("rank", "loader", "tiny", "crowd", "clean")


@dataclasses.dataclass
class Plan:
    """One job."""

    kind: str
    seed: int
    ranks: int
    steps: int
    rank: int
    compute_s: float
    extra_s: float
    tensors: int
    elements: int


def draw(kind: str, seed: int) -> Plan:
    """The plan of a seed."""
    dice = random.Random(f"{kind} {seed}")
    ranks = dice.randint(2, 4)
    compute_s = dice.uniform(0.01, 0.03)
    cores = len(os.sched_getaffinity(0))
    return Plan(
        kind=kind,
        seed=seed,
        ranks={"crowd": 3 * cores, "tiny": 2}.get(kind, ranks),
        steps=dice.randint(16, 24),
        rank=dice.randrange(ranks),
        compute_s=0.005 if kind in ("tiny", "crowd") else compute_s,
        extra_s=dice.uniform(1.5, 3) * compute_s + 0.02,
        tensors=dice.randint(200, 400) if kind == "tiny" else dice.randint(2, 6),
        elements=dice.choice([10, 100]) if kind == "tiny" else dice.choice([100, 5000]),
    )


def run(plan: Plan, folder: Path) -> str:
    """Runs the job and gives the report's verdict, on one line."""
    script = folder / "worker.py"
    script.write_text(WORKER)
    trace = folder / "trace.json"
    ronde = [sys.executable, "-m", "ronde"]
    launch = [*ronde, "run", "-np", str(plan.ranks), "--timeline", str(trace), "--"]
    job = [sys.executable, str(script), json.dumps(dataclasses.asdict(plan))]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    subprocess.run([*launch, *job], check=True, capture_output=True, timeout=480, env=environment)
    return verdict_of([trace], folder)


def verdict_of(traces: list[Path], folder: Path) -> str:
    """The report's verdict, on one line."""
    ronde = [sys.executable, "-m", "ronde", "timeline", "report", *map(str, traces)]
    report = [*ronde, "-o", str(folder / "page.html")]
    done = subprocess.run(report, check=True, capture_output=True, text=True, timeout=480)
    verdict = done.stdout.split("Verdict")[1].split("\nTime")[0].split("\nPaths")[0]
    return re.sub(r"\s+", " ", verdict)


def judge(plan: Plan, verdict: str) -> bool:
    """True if the verdict names the planted cause, and no other rank."""
    blamed = re.findall(r"Rank (\d+) \([^)]*\) holds the others up", verdict)
    blamed += re.findall(r"\d\. Rank (\d+) \(", verdict)
    if plan.kind == "rank":
        return set(blamed) == {str(plan.rank)} and '"forward"' in verdict
    if plan.kind == "loader":
        return set(blamed) == {str(plan.rank)} and '"data"' in verdict
    if plan.kind == "tiny":
        return not blamed and "Many small operations" in verdict
    if plan.kind == "crowd":
        return not blamed and (CROWDED.search(verdict) is not None or not TOLD.exists())
    return not blamed


def attempt(kind: str, seed: int) -> tuple[bool, str]:
    """(whether the verdict is right, the verdict) of one job."""
    plan = draw(kind, seed)
    with tempfile.TemporaryDirectory(prefix="ronde-planted-") as folder:
        verdict = run(plan, Path(folder))
    return judge(plan, verdict), verdict


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=KINDS)
    options = parser.parse_args()
    right = {}
    for kind in [options.only] if options.only else KINDS:
        for seed in range(options.seed, options.seed + options.count):
            good, verdict = attempt(kind, seed)
            right[kind] = right.get(kind, 0) + good
            facts = {**dataclasses.asdict(draw(kind, seed)), "right": good, "verdict": verdict}
            print(json.dumps(facts), flush=True)
    print(json.dumps({"right": right, "of": options.count}))


if __name__ == "__main__":
    main()
