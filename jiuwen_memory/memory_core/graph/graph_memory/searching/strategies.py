"""The strategies that are registered from the start, each a triple of settings. Plain values; touches nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from jiuwen_memory.foundation.store.graph.result_ranking import WeightedRankConfig
from jiuwen_memory.memory_core.config.graph import SearchConfig
from jiuwen_memory.memory_core.graph.graph_memory.searching.asked import SearchStrategy

DEFAULT_SEARCH: Final = SearchStrategy(
    entity=SearchConfig(rank_config=WeightedRankConfig()),
    relation=SearchConfig(min_score=0.02),
    episode=SearchConfig(min_score=0.025),
)

STRATEGIES: Final[Mapping[str, SearchStrategy]] = {"default": DEFAULT_SEARCH}
