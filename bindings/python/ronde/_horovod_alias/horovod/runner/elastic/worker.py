"""Changes of a job, as Horovod's states take them."""

from ronde.common.elastic import HostUpdateResult, WorkerNotificationManager

__all__ = ["HostUpdateResult", "WorkerNotificationManager"]
