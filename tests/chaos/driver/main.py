"""Breaks jobs on purpose: draws a fault from each seed, plays it, prints one JSON line for it.

A line's "complaints" say what was not as it must be: a hang, a wrong sum, an error without a type
or a name, something left behind. Its kind and seed play it again:
    tests/chaos/run --seed 17 --only kill
Which numbers are drawn is fixed by kind and seed; when exactly a signal lands is not.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import signal
import sys
import time
import traceback
from collections import Counter
from pathlib import Path
from typing import Any, Callable

from driver import deaths, disputes, flood, heal, network, surroundings, tamper
from driver.case import Case
from driver.sandbox import Sandbox

Fault = Callable[[Case], None]
KINDS: dict[str, Fault] = {
    fault.__name__: fault
    for fault in (
        deaths.kill,
        deaths.kill_early,
        deaths.kill_late,
        deaths.fall,
        deaths.freeze,
        deaths.launcher,
        deaths.limits,
        deaths.interrupt,
        disputes.mismatch,
        disputes.stall,
        disputes.small_shm,
        disputes.full_disk,
        network.cut,
        heal.heal,
        network.interface_dies,
        tamper.tamper,
        tamper.spoil,
        flood.flood,
        surroundings.clock_jump,
        surroundings.cgroup,
        surroundings.slow_link,
        surroundings.lives,
    )
}
ROOT = Path(__file__).resolve().parents[3]


def play(case: Case, sandbox: Sandbox) -> dict[str, Any]:
    """Plays one case and returns its line."""
    began = time.monotonic()
    complaints: list[str] = []
    try:
        KINDS[case.kind](case)
    except Exception:  # the driver's own fault, to be seen as such
        complaints.append(traceback.format_exc())
    case.clean()
    if case.job is not None:
        complaints += case.job.complaints
    leftovers = _leftovers(sandbox)
    complaints += [f"left behind: {what}" for what in leftovers]
    sandbox.sweep()
    if complaints and case.job is not None:
        case.facts["errors"] = case.job.last_words()
    if case.job is not None and case.job.launcher_hung:
        case.facts["launcher_hung"] = True
    hung = case.job is not None and case.job.hung
    outcome = "hang" if hung else "bad" if complaints else "ok"
    took = round(time.monotonic() - began, 2)
    return {**case.facts, "outcome": outcome, "complaints": complaints, "seconds": took}


def _leftovers(sandbox: Sandbox) -> list[str]:
    """The leftovers a second after all ranks have ended."""
    deadline = time.monotonic() + 1
    while (found := sandbox.leftovers()) and time.monotonic() < deadline:
        time.sleep(0.02)
    return found


def _percentiles(values: list[float]) -> str:
    ordered = sorted(values)
    return ", ".join(f"p{p} {ordered[(len(ordered) - 1) * p // 100]:g} ms" for p in (50, 99))


def variant(line: dict[str, Any]) -> str:
    """The kind of a case and, where it has several, which fault it was: "fall (segfault)"."""
    how = line.get("how") or line.get("what")
    return f"{line['kind']} ({how})" if how else str(line["kind"])


def summarize(lines: list[dict[str, Any]]) -> str:
    """The whole run in a few lines."""
    text = []
    for kind, count in sorted(Counter(map(variant, lines)).items()):
        of_kind = [line for line in lines if variant(line) == kind]
        outcomes = dict(Counter(line["outcome"] for line in of_kind))
        latencies = [line["latency_ms"] for line in of_kind if "latency_ms" in line]
        told = f", told within {_percentiles(latencies)}" if latencies else ""
        launchers = sum("launcher_hung" in line for line in of_kind)
        stuck = f", mpirun itself hung in {launchers}" if launchers else ""
        text.append(f"{kind}: {count} runs, {outcomes}{told}{stuck}")
    return "\n".join(text)


def find_worker() -> Path | None:
    """The release build's worker."""
    worker = ROOT / "build" / "release" / "tests" / "chaos" / "ronde_chaos_worker"
    return worker if worker.exists() else None


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--seed", type=int, default=None, help="of the first case (default: drawn)")
    parser.add_argument("--count", type=int, default=1, help="cases, of consecutive seeds")
    parser.add_argument("--hours", type=float, default=0, help="go on for so long instead")
    parser.add_argument("--only", choices=sorted(KINDS), action="append", help="may be repeated")
    parser.add_argument("--skip", choices=sorted(KINDS), action="append", help="may be repeated")
    parser.add_argument("--each", action="store_true", help="COUNT cases of every kind")
    parser.add_argument("--lives", type=int, default=30, help="of the ranks of each lives case")
    parser.add_argument("--worker", type=Path, default=find_worker())
    parser.add_argument("--bad-only", action="store_true", help="print only lines with complaints")
    return parser.parse_args()


def cases(chosen: argparse.Namespace) -> Any:
    """(kind, seed) of the cases to play."""
    kinds = [kind for kind in chosen.only or KINDS if kind not in (chosen.skip or ())]
    first = random.SystemRandom().randrange(1 << 31) if chosen.seed is None else chosen.seed
    end = time.monotonic() + chosen.hours * 3600
    index = 0
    while time.monotonic() < end if chosen.hours else index < chosen.count:
        seed = first + index
        drawn = [random.Random(seed).choice(kinds)]
        yield from ((kind, seed) for kind in (kinds if chosen.each else drawn))
        index += 1


def main() -> int:
    """Exit status 0 where nothing was wrong, 1 where something was, 2 where nothing could run."""
    chosen = options()
    if chosen.worker is None:
        print("no worker: build the target ronde_chaos_worker, or say --worker", file=sys.stderr)
        return 2
    sandbox = Sandbox(chosen.worker.resolve())
    if not sandbox.isolated:
        print("no namespaces here: what jobs leave behind is not counted", file=sys.stderr)
    lines = []
    for number in (signal.SIGINT, signal.SIGTERM):  # also where it was started in the background
        signal.signal(number, signal.default_int_handler)
    with contextlib.suppress(KeyboardInterrupt):
        for kind, seed in cases(chosen):
            worker = chosen.worker.resolve()
            lines.append(play(Case(kind, seed, worker, sandbox.isolated, chosen.lives), sandbox))
            if lines[-1]["complaints"] or not chosen.bad_only:
                print(json.dumps(lines[-1]), flush=True)
    print(summarize(lines), file=sys.stderr)
    return int(any(line["outcome"] != "ok" for line in lines))
