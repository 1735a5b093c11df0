"""The Spark session that all tests of a process share."""

from spark_session import spark

__all__ = ["spark"]
