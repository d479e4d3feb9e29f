"""The command line `jiuwen-memory`, thin over `GraphMemory`."""

from jiuwen_memory.cli.entry import main

__all__ = ["main"]
