"""The words of the `lastcall` command, one file each: `add` says how it is called, `run` does it."""
