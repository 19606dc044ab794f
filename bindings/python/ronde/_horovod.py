"""The names that all of Horovod's APIs share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ronde._calls.reduce_ops import Adasum as Adasum
from ronde._calls.reduce_ops import Average as Average
from ronde._calls.reduce_ops import Max as Max
from ronde._calls.reduce_ops import Min as Min
from ronde._calls.reduce_ops import Product as Product
from ronde._calls.reduce_ops import Sum as Sum
from ronde._errors import Error
from ronde._membership import joining
from ronde._membership.joining import *

HorovodInternalError = Error

if not TYPE_CHECKING:
    __all__ = [
        "Adasum",
        "Average",
        "HorovodInternalError",
        "Max",
        "Min",
        "Product",
        "Sum",
        *joining.__all__,
    ]
