"""A call's arguments, handle and results, whatever the tensors are."""
