"""How this process joins its job and leaves it, once or in epoch after epoch."""
