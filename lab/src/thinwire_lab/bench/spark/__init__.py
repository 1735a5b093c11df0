"""The bars of Spark: the source, reconstruction and the dry run, each beside what a team would do without us.

A rate is per CPU-second of all processes: this one, the JVM, its Python workers and the broker. Nothing here imports
pyspark before a bar runs, so that the bars can be listed where it is not installed.
"""
