"""docs/horovod-names.md against what `import horovod` finds."""

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[4] / "docs" / "horovod-names.md"
ROW = re.compile(r"\| `([\w.]+)(?:\(([\w, ]*)\))?` \| (same|differs|refused) \|")
HEADING = re.compile(r"## `(horovod[\w.]*)`")
CHECK = """
    import importlib, inspect, os
    from operator import attrgetter

    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
    rows = {rows!r}

    def arguments(found):
        parameters = inspect.signature(found).parameters.values()
        names = [p.name for p in parameters if p.kind == p.POSITIONAL_OR_KEYWORD]
        return names[names[:1] == ["self"] :]

    for module, name, wanted, status in rows:
        try:
            found = attrgetter(name)(importlib.import_module(module))
        except AttributeError:
            if status != "refused":
                print("WRONG", module, name, "is missing")
            continue
        if status == "refused":
            print("WRONG", module, name, "is there")
        elif status == "same" and wanted is not None:
            if arguments(found)[: len(wanted)] != wanted:
                print("WRONG", module, name, "takes", arguments(found))
    print("checked", len(rows))
"""


def rows():
    """(module, name, names of arguments or None, status) of each row of the page."""
    found, module = [], ""
    for line in PAGE.read_text().splitlines():
        if heading := HEADING.match(line):
            module = heading[1]
        elif row := ROW.match(line):
            wanted = None if row[2] is None else [n for n in row[2].split(", ") if n]
            found.append((module, row[1], wanted, row[3]))
    return found


@pytest.mark.parametrize("framework", ["torch", "tensorflow"])
def test_the_page_of_horovods_names_is_true(run_job, framework):
    pytest.importorskip(framework)
    of_tensorflow = re.compile(r"horovod\.(tensorflow|keras)")
    chosen = [r for r in rows() if bool(of_tensorflow.match(r[0])) == (framework == "tensorflow")]
    assert len(chosen) > 100
    status, output = run_job(CHECK.format(rows=chosen), 1, options=["--horovod"])
    assert status == 0, output
    assert "WRONG" not in output, output
    assert f"checked {len(chosen)}" in output
