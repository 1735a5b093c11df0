"""What users call: `connect`, publishers, subscriptions and watches. The package `thinwire` exports these names."""
