"""Assignment of subscribers to brokers by proximity, by interest, or by both, and its costs."""
