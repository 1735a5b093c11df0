"""Reading the log of a topic: one receiving end a publisher, and the way into the middle of it."""
