"""Offset ranges of a topic log as Arrow batches. The Spark source reads one range per task.

`LogTable` seeks to the start of a range, decodes its messages with one decoder per publisher and projects the events to
the columns of the topic's table. `raw_tables` returns the stored bytes instead.
"""
