"""The strategies that are registered from the start, each a triple of settings. Plain values; touches nothing.

`default` is the specification's, with names that are everywhere taken out of what is embedded, and what the person
asked about said raised instead. The others that join words and vectors do it by score (`MinMaxRankConfig`), which finds
more than ranks do. docs/search.md says when to use which, docs/evaluation.md what they find.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from jiuwen_memory.foundation.store.graph.result_ranking import MinMaxRankConfig, WeightedRankConfig
from jiuwen_memory.memory_core.config.graph import SearchConfig
from jiuwen_memory.memory_core.graph.graph_memory.searching.asked import SearchStrategy

_BY_SCORE: Final = MinMaxRankConfig()
_WORDS: Final = WeightedRankConfig(name_dense=0, content_dense=0, content_sparse=1)
_MEANING: Final = WeightedRankConfig(name_dense=0.3, content_dense=0.7, content_sparse=0)
_NOTHING: Final[Mapping[str, object]] = {}
_EVERYWHERE: Final = 0.2
"""A name in a fifth of the episodes tells nothing apart."""
_ASKED: Final = 0.2
"""What gives back to a query whom it asks about, after the name has left its vector."""

_HYBRID: Final = SearchConfig(top_k=10, min_score=0.1, rank_config=_BY_SCORE, common_names=_EVERYWHERE, speaker=_ASKED)
_WITH_GRAPH: Final = {"bfs_depth": 2, "bfs_k": 10, "seed_floor": 0.3, "support": 0.15, "mentions": 0.05}
_SPINE: Final = {"spine": 0.4}
_TALK: Final = {**_SPINE, "speaker": 0.4, "questions": 0.15}
_IN_TIME: Final = {"order": "time", "closeness": 0.2}


def _all(config: SearchConfig, *, episode: Mapping[str, object] = _NOTHING) -> SearchStrategy:
    return SearchStrategy(entity=config, relation=config, episode=_changed(config, episode))


def _changed(config: SearchConfig, *changes: Mapping[str, object]) -> SearchConfig:
    return config.model_copy(update={name: value for each in changes for name, value in each.items()})


DEFAULT_SEARCH: Final = SearchStrategy(
    entity=SearchConfig(rank_config=WeightedRankConfig(), common_names=_EVERYWHERE),
    relation=SearchConfig(min_score=0.02, common_names=_EVERYWHERE),
    episode=SearchConfig(min_score=0.025, common_names=_EVERYWHERE, speaker=_ASKED),
)

STRATEGIES: Final[Mapping[str, SearchStrategy]] = {
    "default": DEFAULT_SEARCH,
    "precise": _all(_changed(_HYBRID, {"top_k": 3, "min_score": 0.5})),
    "broad": _all(_changed(_HYBRID, {"top_k": 20, "min_score": 0.0, "bfs_depth": 1, "bfs_k": 10})),
    "lexical": _all(SearchConfig(top_k=10, min_score=0.0, rank_config=_WORDS)),
    "semantic": _all(SearchConfig(top_k=10, min_score=0.0, rank_config=_MEANING)),
    "graph": _all(_changed(_HYBRID, _WITH_GRAPH), episode=_SPINE),
    "conversation": _all(_HYBRID, episode=_TALK),
    "associative": _all(_changed(_HYBRID, {"pagerank": 0.5}), episode=_SPINE),
    "timeline": SearchStrategy(
        entity=_HYBRID, relation=_changed(_HYBRID, _IN_TIME), episode=_changed(_HYBRID, _TALK, _IN_TIME)
    ),
}
