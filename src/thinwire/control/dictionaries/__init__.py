"""Dictionaries in the running system: where they are kept, how a reader gets one, and who looks after them."""

from thinwire.control.dictionaries.documents import Decision, InUse, Kept, Said
from thinwire.control.dictionaries.store import DictionaryStore, Known, fetched

__all__ = ["Decision", "DictionaryStore", "InUse", "Kept", "Known", "Said", "fetched"]
