"""Dictionaries in the running system: where they are kept, how a reader gets one, and who looks after them."""
