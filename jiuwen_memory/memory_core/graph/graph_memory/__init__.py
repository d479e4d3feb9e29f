"""The graph memory: import `GraphMemory` from `jiuwen_memory.memory_core.graph.graph_memory.base`."""
