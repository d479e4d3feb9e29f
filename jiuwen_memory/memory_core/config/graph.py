"""Settings of the graph memory: kinds of input, how it writes, how it searches."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, SerializeAsAny, model_validator

from jiuwen_memory.foundation.store.graph.graph_object import RelationKind
from jiuwen_memory.foundation.store.graph.result_ranking import (
    BaseRankConfig,
    RRFRankConfig,
    WeightedRankConfig,
    rank_named,
)
from jiuwen_memory.foundation.store.query import QueryExpr

Language = Literal["cn", "en"]
Extraction = Literal["staged", "openie", "episodic", "episodic_gist", "temporal"]
"""What is asked about a text: see `AddMemStrategy.extraction`."""


class EpisodeType(Enum):
    """What kind of input an episode is made of."""

    CONVERSATION = 0
    DOCUMENT = 1
    JSON = 2


class BaseStrategy(BaseModel):
    """How many results, how good, ranked how. `min_score=None` takes the rank config's own default.

    A `rank_config` may be a mapping with its `name` (`weighted`, `rrf`, `min_max`), as in a file.
    """

    model_config = ConfigDict(defer_build=True, frozen=True, extra="forbid", arbitrary_types_allowed=True)

    top_k: int = Field(default=3, ge=1)
    min_score: Annotated[float, Field(allow_inf_nan=False)] | None = None
    rank_config: SerializeAsAny[BaseRankConfig] = Field(default_factory=RRFRankConfig)

    @model_validator(mode="before")
    @classmethod
    def _fitting_min_score(cls, values: object) -> object:
        if isinstance(values, dict) and isinstance(values.get("rank_config"), Mapping):
            values = {**values, "rank_config": rank_named(values["rank_config"])}
        if isinstance(values, dict) and values.get("min_score") is None:
            default = cls.model_fields["min_score"].default
            rank = values.get("rank_config") or cls.model_fields["rank_config"].get_default(call_default_factory=True)
            if default is None and isinstance(rank, BaseRankConfig):
                return {**values, "min_score": rank.default_min_score}
            return {key: value for key, value in values.items() if key != "min_score"}
        return values

    @property
    def threshold(self) -> float:
        """The lowest score that counts."""
        return self.rank_config.default_min_score if self.min_score is None else self.min_score


class RetrievalStrategy(BaseStrategy):
    """How stored objects are recalled while writing; `same_kind` keeps to objects of the same type."""

    same_kind: bool = False


class EpisodeRetrievalStrategy(RetrievalStrategy):
    """How earlier episodes are recalled; by default none from after the new text's reference time."""

    min_score: float | None = 0.025
    exclude_future_results: bool = True


class AddMemStrategy(BaseModel):
    """How a text becomes part of the graph.

    Args:
        extraction: what is asked about a text. `staged`: named things, then facts about them, with times. `openie`:
            things and triples in one question, without times of their own. `episodic`: things and facts in one
            question, with who said what and circumstances as qualifiers. `episodic_gist`: gists and things, then such
            facts with the gists as context. `temporal`: things and facts in one question, each with its time.
        split_messages: each message of a conversation is an episode of its own, in one session, asked about together.
        concatenate_gists: the gists of a text become one episode (only `episodic_gist` has gists).
        chinese_entity, chinese_entity_dedupe, chinese_relation: ask that question in Chinese whatever the language;
            a question for facts or gists follows `chinese_relation`, also if it asks for named things as well.
        skip_uuid_dedupe: do not check that new ids are free.
        recall_episode, recall_entity, recall_relation: what is looked up at each stage.
        summary_target: length an entity's summary aims at, in characters (twice that for people).
        judge_entities: ask which stored entities new names mean. Without it a name means the stored entity of that name
            and a compatible type, and no other.
        merge_entities: fuse stored entities that turn out to be one; new mentions find their entity either way.
        merge_relations: ask whether new facts repeat or contradict stored ones.
        max_retired: facts that one text may end by contradicting them; more are refused, with a warning.
        max_co_occurs: links between facts first learnt from one text, at most (0: none).
        temporal_spine: link each episode of a session to the next one in time.
        merge_filter: ask which facts still make sense after entities were fused.
        chunk_tokens: the longest text of one model call; longer inputs are split.
        batch_items: entities per question for summaries.
        judge_items: items per judgement (same or not?); 1 asks about each pair in a question of its own.
        keep_failed: keep the input of an add that fails for good in the journal, for `resume`.
        max_llm_calls: requests to the model per add, retries included (None: no limit); what is left out is reported.
        link_synonyms: link new entities to those with close names, as `GraphMemory.link_synonyms` does for all.
        synonym_min_similarity: cosine of two name vectors from which on names are close (the threshold of REMem).
        synonym_top_k: how many of the nearest an entity is linked to, at most.
        max_tokens: tokens per add, prompts and answers together (None: no limit).
    """

    model_config = ConfigDict(defer_build=True, frozen=True, extra="forbid")

    extraction: Extraction = "staged"
    split_messages: bool = False
    concatenate_gists: bool = False
    chinese_entity: bool = True
    chinese_entity_dedupe: bool = False
    chinese_relation: bool = False
    skip_uuid_dedupe: bool = False
    recall_episode: EpisodeRetrievalStrategy = Field(default_factory=EpisodeRetrievalStrategy)
    recall_entity: RetrievalStrategy = Field(
        default_factory=lambda: RetrievalStrategy(
            min_score=0.1,
            rank_config=WeightedRankConfig(name_dense=0.7, content_dense=0.1, content_sparse=0.2),
        )
    )
    recall_relation: RetrievalStrategy = Field(default_factory=lambda: RetrievalStrategy(min_score=0.02))
    summary_target: int = Field(default=250, ge=10, le=2000)
    judge_entities: bool = True
    merge_entities: bool = True
    merge_relations: bool = True
    merge_filter: bool = True
    max_retired: int = Field(default=10, ge=0)
    max_co_occurs: int = Field(default=0, ge=0, le=1000)
    temporal_spine: bool = False
    chunk_tokens: int = Field(default=2000, ge=50, le=100_000)
    batch_items: int = Field(default=20, ge=1, le=200)
    judge_items: int = Field(default=20, ge=1, le=200)
    keep_failed: bool = True
    link_synonyms: bool = False
    synonym_min_similarity: float = Field(default=0.8, gt=0, le=1)
    synonym_top_k: int = Field(default=10, ge=1, le=2047)
    max_llm_calls: int | None = Field(default=None, ge=1)
    max_tokens: int | None = Field(default=None, ge=1)

    @classmethod
    def small_model(cls, **changes: object) -> Self:
        """Return a strategy for models of a few billion parameters, which read well and judge badly.

        Things and facts are asked for at once, with their times; who is who is settled by names; facts are judged one
        pair a question, in English.
        """
        chosen = {"extraction": "temporal", "judge_entities": False, "chinese_entity": False}
        sizes = {"batch_items": 12, "judge_items": 1, "chunk_tokens": 800}
        return cls.model_validate({**chosen, **sizes, **changes})

    def question_language(
        self, question: Literal["entity", "entity_dedupe", "relation"], language: Language
    ) -> Language:
        """Return the language a question is asked in."""
        return "cn" if getattr(self, f"chinese_{question}") else language

    def dedupe_language(self, language: Language) -> Language:
        """Return the language of questions about equal entities: Chinese if wanted so, else that of judgements."""
        return "cn" if self.chinese_entity_dedupe else self.pair_language(language)

    def pair_language(self, language: Language) -> Language:
        """Return the language of judgements: English for single pairs, where small models judge far better in it."""
        return "en" if self.judge_items == 1 else language


DEFAULT_STRATEGY = AddMemStrategy()


KIND_PRIORS: Mapping[RelationKind, float] = {
    "causes": 0.9,
    "elaborates": 0.9,
    "same_series": 0.85,
    "contrasts": 0.7,
    "temporal_next": 0.7,
    "co_occurs": 0.55,
    "fact": 0.5,
    "synonym": 0.5,
}
"""What a link of each kind hands on: more where it says what similarity does not (after Hy-Memory)."""

Share = Annotated[float, Field(ge=0, le=1)]


class DiversityConfig(BaseModel):
    """Maximal marginal relevance (Carbonell and Goldstein, 1998): each next result is good, and unlike those before.

    Args:
        weight: how much likeness to a chosen result counts against a candidate, relevance the rest; 0 changes nothing.
        candidates: the best ones, among which is chosen; their vectors are read.
    """

    model_config = ConfigDict(defer_build=True, frozen=True, extra="forbid")

    weight: Share = 0.3
    candidates: int = Field(default=50, ge=2, le=200)


class SearchConfig(BaseStrategy):
    """How one collection is searched. Everything from `semantic_margin` down is off unless set, `period` apart.

    Signals add their weight, as a share of the ranking's highest score, to what the channels gave.

    Args:
        bfs_k: neighbours brought in per hop (entities and relations only).
        bfs_depth: hops of graph expansion; 0 is none.
        filter_expr: a further condition on the rows.
        output_fields: columns to return (None: all but vectors); what an object needs to be whole is always read.
        rerank: let the attached reranker order the best 50 candidates, or `top_k` if that is more.
        language: language handed to the reranker; the store's search knows no languages.
        order: `score`, or `time`: the results, once chosen, from the earliest to the latest.
        kind_priors: share of its score that a hit hands to a neighbour, by kind of link; others are not followed.
        semantic_margin: a neighbour must be as similar to the query as the hit it comes from, less this much (of the
            cosine, or what the store's metric gives).
        seed_floor: expand from hits of at least this score (and of `min_score`).
        kind_quota: newcomers per kind of link and hop, at most; 0 is no limit but `bfs_k`.
        prefilter: neighbours looked at per hop, the most promising ones.
        support: weight of what related candidates lend each other; `support_rounds` times, `support_cap` at most.
        spine: weight of what comes before and after a good episode in its session, up to `spine_distance` away.
        spine_floor: an episode supports others by what it scores above this share of the highest score.
        speaker: weight of having been said by the one person whom the query names.
        questions: taken from episodes that end with a question mark: they ask, they do not tell.
        recency: weight of being new; halved every `recency_days`.
        closeness: weight of lying near the moment asked about, or else the best hit; halved every `closeness_days`.
        mentions: weight of having been mentioned often.
        pagerank: weight of a personalised PageRank over what lies around the hits (extra `graph`).
        pagerank_damping: share of the walk that goes on rather than back to the hits.
        period: what a time in the words of the query ("last spring") does: `boost` what belongs to it, `filter` for it,
            or nothing (`off`); `boost` unless set.
        period_weight: weight of belonging to that time; half of it for facts that only went on then.
        diversity: choose results that differ from each other.
        common_names: names in at least this share of the user's episodes are taken out of the query before it is
            embedded: they tell nothing apart, but fill the vector.
    """

    bfs_k: int = Field(default=3, ge=1)
    bfs_depth: int = Field(default=0, ge=0)
    filter_expr: QueryExpr | None = None
    output_fields: list[str] | None = None
    rerank: bool = False
    language: Language = "en"
    order: Literal["score", "time"] = "score"
    kind_priors: dict[RelationKind, Share] = Field(default_factory=lambda: dict(KIND_PRIORS))
    semantic_margin: Annotated[float, Field(ge=0, le=2)] | None = None
    seed_floor: float = Field(default=0.0, ge=0)
    kind_quota: int = Field(default=0, ge=0)
    prefilter: int = Field(default=50, ge=1, le=100)
    support: Share = 0.0
    support_rounds: int = Field(default=1, ge=1, le=5)
    support_cap: float = Field(default=1.0, gt=0, le=10)
    spine: Share = 0.0
    spine_distance: int = Field(default=3, ge=1, le=3)
    spine_floor: Share = 0.2
    speaker: Share = 0.0
    questions: Share = 0.0
    recency: Share = 0.0
    recency_days: float = Field(default=30.0, gt=0)
    closeness: Share = 0.0
    closeness_days: float = Field(default=7.0, gt=0)
    mentions: Share = 0.0
    period: Literal["off", "boost", "filter"] = "boost"
    period_weight: Share = 0.15
    diversity: DiversityConfig | None = None
    pagerank: Share = 0.0
    pagerank_damping: float = Field(default=0.5, gt=0, lt=1)
    common_names: Share = 0.0
