"""The optimizers that send gradients, and the states of optimizers."""
