"""Answers to `import horovod` in jobs that `ronde run --horovod` starts.

Scripts written for Horovod's PyTorch, TensorFlow 2 and Keras APIs then run unedited. What Ronde
does not have (Adasum, Spark, Ray) is not here either, so that scripts see it as missing.
"""

from ronde import run

# The version of Horovod whose API this is.
__version__ = "0.28.1"

__all__ = ["__version__", "run"]
