"""Graphs in and out of a memory: JSON Lines, networkx and GraphML, tables of triples, stores of JiuwenMemory 0.1."""

from jiuwen_memory.integrations.exchange.graphs import to_networkx, write_graphml
from jiuwen_memory.integrations.exchange.jsonl import export_graph, import_graph
from jiuwen_memory.integrations.exchange.legacy import import_store
from jiuwen_memory.integrations.exchange.reports import ExportReport, ImportReport, Progress, StoreReport
from jiuwen_memory.integrations.exchange.tables import write_triples

__all__ = [
    "ExportReport",
    "ImportReport",
    "Progress",
    "StoreReport",
    "export_graph",
    "import_graph",
    "import_store",
    "to_networkx",
    "write_graphml",
    "write_triples",
]
