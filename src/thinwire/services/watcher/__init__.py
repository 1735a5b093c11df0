"""Watching: composite subscriptions evaluated next to the broker, each by one evaluator, with a log of its own."""
