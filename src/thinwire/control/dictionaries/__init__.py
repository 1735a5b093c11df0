"""Dictionaries in the running system: where they are kept, and how a reader gets one."""

from thinwire.control.dictionaries.store import DictionaryStore, Known, fetched

__all__ = ["DictionaryStore", "Known", "fetched"]
