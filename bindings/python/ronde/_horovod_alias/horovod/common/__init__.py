"""The parts of Horovod's common package that scripts import."""

import sys

from ronde.common import basics, elastic, exceptions

for _module in (basics, elastic, exceptions):
    sys.modules[_module.__name__.replace("ronde", "horovod", 1)] = _module
