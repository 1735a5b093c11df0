"""Places in the network: coordinates of nodes, of subscribers and of brokers."""
