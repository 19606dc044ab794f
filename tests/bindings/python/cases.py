"""Lets pytest collect cases: functions `case_*` of files `*_cases.py`, run by all ranks of a job.

Each case is an item for each number of ranks: `pytest pytorch/error_cases.py -k float8`. The chosen
cases of a folder share a job for each number of ranks: importing a framework is the dear part.
A file says by constants which jobs it needs, see Wants.
"""

from __future__ import annotations

import ast
import dataclasses
import importlib.util
import re
import tempfile
from pathlib import Path

import pytest
from jobs import CaseResults

MOST_RANKS = 4  # of a job that is not slow
QUIET = {"TF_CPP_MIN_LOG_LEVEL": "2", "CUDA_VISIBLE_DEVICES": "-1"}  # for TensorFlow


def case_names(*paths):
    """The names of the cases in these files, in order."""
    return [name for path in paths for name in _cases(Path(path).read_text())]


def _cases(source):
    """The line of each case, by its name."""
    found = re.finditer(r"^def (case_\w+)\(", source, re.MULTILINE)
    return {one[1]: source.count("\n", 0, one.start()) for one in found}


@dataclasses.dataclass(frozen=True)
class Wants:
    """The jobs that a file's cases run in: its constants RANKS, OPTIONS and NEEDS."""

    ranks: tuple[int, ...] = (2, 3)
    options: tuple[str, ...] = ()  # of `ronde run`
    needs: str = ""  # a package; without it the cases are skipped

    @classmethod
    def of(cls, source):
        """Reads the constants. The file itself is imported by the ranks alone."""
        names = {field.name for field in dataclasses.fields(cls)}
        given = {}
        for node in ast.parse(source).body:
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]).lower() in names:
                given[ast.unparse(node.targets[0]).lower()] = ast.literal_eval(node.value)
        return cls(**given)


class CaseFile(pytest.File):
    """A file of cases."""

    def collect(self):
        """An item for each case and number of ranks."""
        source = self.path.read_text()
        wants = Wants.of(source)
        for name, line in _cases(source).items():
            for np in wants.ranks:
                yield Case.from_parent(
                    self, name=f"{name}[{np}]", case=name, np=np, line=line, wants=wants
                )


_results = {}  # of jobs that have run, by what they are


class Case(pytest.Item):
    """One case on some ranks."""

    def __init__(self, *, case, np, line, wants, **of_pytest):
        super().__init__(**of_pytest)
        self.case, self.np, self.line, self.wants = case, np, line, wants
        self.job = (self.path.parent, np, wants.options)
        if np > MOST_RANKS:
            self.add_marker("slow")

    def setup(self):
        """Skips the case where its package is not installed."""
        if self.wants.needs and importlib.util.find_spec(self.wants.needs) is None:
            pytest.skip(f"{self.wants.needs} is not installed here")

    def runtest(self):
        """Runs the job of all chosen cases of its kind, once, and looks at this one's result."""
        if self.job not in _results:
            chosen = [one for one in self.session.items if getattr(one, "job", None) == self.job]
            files = dict.fromkeys(one.path for one in chosen)
            _results[self.job] = CaseResults(
                files,
                self.np,
                Path(tempfile.mkdtemp(prefix="cases-")),
                options=self.wants.options,
                environment=QUIET if self.wants.needs == "tensorflow" else None,
                only={one.case for one in chosen},
            )
        _results[self.job].check(self.case)

    def reportinfo(self):
        """Where the case is, and what reports call it."""
        return self.path, self.line, self.name

    def repr_failure(self, excinfo, style=None):
        """The case's own failure, without this file's lines."""
        if excinfo.errisinstance(pytest.fail.Exception):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)


def check_refusals(calls, kind):
    """Makes each of the wrong calls, which raise a `kind` that begins with the call's sentence."""
    for what, (call, sentence) in calls.items():
        with pytest.raises(kind) as caught:
            call()
        assert caught.match(f"^{sentence}"), what
