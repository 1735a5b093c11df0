"""Translating: from the log of a topic to a channel for each class of its subscribers."""
