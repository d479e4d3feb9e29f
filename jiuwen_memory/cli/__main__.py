"""`python -m jiuwen_memory.cli`: the same as the command `jiuwen-memory`."""

from __future__ import annotations

from jiuwen_memory.cli.entry import main

if __name__ == "__main__":
    main()
