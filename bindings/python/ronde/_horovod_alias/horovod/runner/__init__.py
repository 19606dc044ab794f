"""horovod.runner.run, which is ronde.run."""

from ronde import run

__all__ = ["run"]
