"""Graphs in and out of a memory: JSON Lines, networkx and GraphML, tables of triples."""

from jiuwen_memory.integrations.exchange.graphs import to_networkx, write_graphml
from jiuwen_memory.integrations.exchange.jsonl import export_graph, import_graph
from jiuwen_memory.integrations.exchange.reports import ExportReport, ImportReport, Progress, StoreReport
from jiuwen_memory.integrations.exchange.tables import write_triples

__all__ = [
    "ExportReport",
    "ImportReport",
    "Progress",
    "StoreReport",
    "export_graph",
    "import_graph",
    "to_networkx",
    "write_graphml",
    "write_triples",
]
