"""Shared by client, services and Spark: names, documents and metadata of topics, log decoding and seek, stores."""
