"""The codecs as all frameworks choose them: one for all tensors, or by rules."""
