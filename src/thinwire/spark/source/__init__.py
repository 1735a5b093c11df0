"""The data source `thinwire`: topics as tables and streams."""
