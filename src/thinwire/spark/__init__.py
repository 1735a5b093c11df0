"""Spark: data source, sink and jobs. The only package that imports pyspark."""

if ".zip" in __file__:
    from thinwire.spark.kernel_cache import cache_by_zip_name

    cache_by_zip_name()
