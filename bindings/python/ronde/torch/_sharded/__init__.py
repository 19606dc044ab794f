"""DistributedOptimizer(shard=...): each rank updates a part of the parameters."""
