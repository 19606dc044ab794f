"""The names that all of Horovod's APIs share."""

from __future__ import annotations

from ronde import _job
from ronde._collectives import AVERAGE as Average
from ronde._collectives import MAX as Max
from ronde._collectives import MIN as Min
from ronde._collectives import PRODUCT as Product
from ronde._collectives import SUM as Sum
from ronde._errors import Error as HorovodInternalError
from ronde._job import *

__all__ = ["Average", "HorovodInternalError", "Max", "Min", "Product", "Sum"]
__all__ += _job.__all__
