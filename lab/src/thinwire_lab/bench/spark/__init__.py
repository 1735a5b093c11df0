"""Benchmarks of Spark: the source, reconstruction, analysis and workloads, compared with reference methods.

A rate is per CPU-second of all processes: this one, the JVM, its Python workers and the broker. These modules import
pyspark when a benchmark runs, so that benchmarks can be listed without it.
"""
