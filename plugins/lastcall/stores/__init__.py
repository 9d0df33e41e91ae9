"""Where the guard's records live."""

from lastcall.stores.memory import MemoryStore
from lastcall.stores.opening import open_store
from lastcall.stores.trouble import StoreError, UnreadableRecordError

__all__ = ["MemoryStore", "StoreError", "UnreadableRecordError", "open_store"]
