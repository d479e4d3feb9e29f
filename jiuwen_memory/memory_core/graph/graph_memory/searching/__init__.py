"""The parts of a search, one module each; `graph_memory.search` says in which order they run."""
