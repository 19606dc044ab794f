"""The rendezvous in torch's store, of ranks that torch.distributed or torchrun has started."""
