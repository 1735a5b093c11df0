"""Safe-region tree: exact delivery if no single node can store all thresholds of a source."""
