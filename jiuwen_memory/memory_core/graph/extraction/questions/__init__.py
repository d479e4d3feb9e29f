"""The questions put to the language model, one module each."""

from jiuwen_memory.memory_core.graph.extraction.questions.duplicates import ask_entity_duplicates
from jiuwen_memory.memory_core.graph.extraction.questions.entities import ask_entities
from jiuwen_memory.memory_core.graph.extraction.questions.gists import ask_gist_facts, ask_gists
from jiuwen_memory.memory_core.graph.extraction.questions.ranking import ask_ranking
from jiuwen_memory.memory_core.graph.extraction.questions.relations import ask_relations
from jiuwen_memory.memory_core.graph.extraction.questions.relevance import ask_relation_filter
from jiuwen_memory.memory_core.graph.extraction.questions.statements import ask_statements
from jiuwen_memory.memory_core.graph.extraction.questions.summaries import ask_summaries
from jiuwen_memory.memory_core.graph.extraction.questions.timezone import ask_timezone
from jiuwen_memory.memory_core.graph.extraction.questions.verdicts import ask_relation_verdicts

__all__ = [
    "ask_entities",
    "ask_entity_duplicates",
    "ask_gist_facts",
    "ask_gists",
    "ask_ranking",
    "ask_relation_filter",
    "ask_relation_verdicts",
    "ask_relations",
    "ask_statements",
    "ask_summaries",
    "ask_timezone",
]
