"""What the optimizers and tapes of all frameworks share."""
