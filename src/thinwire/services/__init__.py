"""The services next to the broker: pure cores, thin servers."""
