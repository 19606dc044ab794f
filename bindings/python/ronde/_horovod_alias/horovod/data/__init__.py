"""The data loaders of Horovod: a base class, and one that reads ahead in a thread."""

from .data_loader_base import AsyncDataLoaderMixin, BaseDataLoader

__all__ = ["AsyncDataLoaderMixin", "BaseDataLoader"]
