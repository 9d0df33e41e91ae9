"""Where the guard's records live."""

from lastcall.stores.memory import MemoryStore

__all__ = ["MemoryStore"]
