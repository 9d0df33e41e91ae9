"""Where the guard's records live."""

from typing import TYPE_CHECKING

from lastcall.doors import doors

if TYPE_CHECKING:
    from lastcall.stores.memory import MemoryStore
    from lastcall.stores.opening import open_store
    from lastcall.stores.trouble import StoreError, UnreadableRecordError
else:
    __getattr__, __dir__ = doors(
        globals(),
        {
            "memory": ("MemoryStore",),
            "opening": ("open_store",),
            "trouble": ("StoreError", "UnreadableRecordError"),
        },
    )

__all__ = ["MemoryStore", "StoreError", "UnreadableRecordError", "open_store"]
