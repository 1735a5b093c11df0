"""Pictures of workloads: what is in one, and what it costs to assign its subscribers to brokers."""
