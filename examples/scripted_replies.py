"""Replies written for the texts of `quickstart.py`, `chinese.py` and `ontology.py`, so that they run without a model.

A scripted model answers each kind of question from its list, one answer per text. What it is not told about
(contradictions, the time zone) it answers as a model does that finds nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from jiuwen_memory.testing import FakeLLM, FakePrompt, Script, by_name, same_as

Entities = Sequence[tuple[str, str]]
"""Names and types."""
Facts = Sequence[tuple[str, str, str, str, str | None, str | None]]
"""Predicate, the entities at both ends, the sentence, and the words of the text for since when and until when."""

QUICKSTART_ENTITIES: Sequence[Entities] = (
    [
        ("Marta", "Human"),
        ("Solvane Robotics", "Entity"),
        ("Turin", "Entity"),
        ("Giulia Ferrero", "Human"),
        ("Medtrix", "Entity"),
    ],
    [("Solvane Robotics", "Entity"), ("Giulia Ferrero", "Human"), ("Porto Vecchio", "Entity"), ("Genoa", "Entity")],
)
QUICKSTART_FACTS: Sequence[Facts] = (
    [
        ("works at", "Marta", "Solvane Robotics", "Marta works at Solvane Robotics.", "on Monday", None),
        ("is in", "Solvane Robotics", "Turin", "Solvane Robotics is in Turin.", None, None),
        ("hired", "Giulia Ferrero", "Marta", "Giulia Ferrero hired Marta.", None, None),
        (
            "worked at",
            "Marta",
            "Medtrix",
            "Marta wrote firmware for pumps at Medtrix.",
            "March 2021",
            "April 2026",
        ),
    ],
    [
        ("founded", "Giulia Ferrero", "Solvane Robotics", "Giulia Ferrero founded Solvane Robotics.", "2019", None),
        (
            "customer of",
            "Porto Vecchio",
            "Solvane Robotics",
            "Porto Vecchio is the first customer of Solvane Robotics.",
            None,
            None,
        ),
        ("is in", "Porto Vecchio", "Genoa", "Porto Vecchio operates a port in Genoa.", None, None),
    ],
)
QUICKSTART_SUMMARIES = (
    {
        "Marta": "Works at Solvane Robotics in Turin; wrote firmware for pumps at Medtrix before.",
        "Solvane Robotics": "A company in Turin where Marta works.",
        "Turin": "The city of Solvane Robotics.",
        "Giulia Ferrero": "Hired Marta at Solvane Robotics.",
        "Medtrix": "Marta's employer from March 2021 to April 2026.",
    },
    {
        "Solvane Robotics": "A maker of warehouse robots in Turin, founded in 2019; Marta works there.",
        "Giulia Ferrero": "Founded Solvane Robotics in 2019 and hired Marta.",
        "Porto Vecchio": "A port operator in Genoa, the first customer of Solvane Robotics.",
        "Genoa": "The city of Porto Vecchio.",
    },
)

CHINESE_ENTITIES: Sequence[Entities] = (
    [("陈雨", "Human"), ("望海书店", "Entity"), ("青岛", "Entity"), ("小米粒", "Entity"), ("苏州", "Entity")],
)
CHINESE_FACTS: Sequence[Facts] = (
    [
        ("工作于", "陈雨", "望海书店", "陈雨在望海书店工作。", "上个月", None),
        ("位于", "望海书店", "青岛", "望海书店位于青岛。", None, None),
        ("居住于", "陈雨", "苏州", "陈雨住在苏州。", "2019年", "今年三月"),
        ("养", "陈雨", "小米粒", "陈雨养了一只叫小米粒的橘猫。", None, None),
        ("过敏", "陈雨", "陈雨", "陈雨对花生过敏。", None, None),
    ],
)
CHINESE_SUMMARIES = (
    {
        "陈雨": "在青岛的望海书店工作，以前住在苏州；养一只橘猫，对花生过敏。",
        "望海书店": "青岛的一家书店，陈雨在那里工作。",
        "青岛": "望海书店所在的城市。",
        "小米粒": "陈雨养的橘猫。",
        "苏州": "陈雨以前居住的城市。",
    },
)


def quickstart_model() -> FakeLLM:
    """Return a model that knows the answers about the texts of `quickstart.py`, and nothing else."""
    same = {"Solvane Robotics": ["Solvane Robotics"], "Giulia Ferrero": ["Giulia Ferrero"]}
    return _scripted(QUICKSTART_ENTITIES, QUICKSTART_FACTS, QUICKSTART_SUMMARIES, same=same)


def chinese_model() -> FakeLLM:
    """Return a model that knows the answers about the conversation of `chinese.py`, and nothing else."""
    return _scripted(CHINESE_ENTITIES, CHINESE_FACTS, CHINESE_SUMMARIES, same={})


def _scripted(
    entities: Sequence[Entities],
    facts: Sequence[Facts],
    summaries: Sequence[Mapping[str, str]],
    *,
    same: Mapping[str, Sequence[str]],
) -> FakeLLM:
    return FakeLLM(
        {
            "EntityExtraction": Script(
                [{"entities": [{"name": name, "type": kind} for name, kind in each]} for each in entities]
            ),
            "EntityDuplication": same_as(same),
            "RelationExtraction": Script(
                [
                    {
                        "relations": [
                            {
                                "fact": fact,
                                "name": name,
                                "source": source,
                                "target": target,
                                "valid_since": since,
                                "valid_until": until,
                            }
                            for name, source, target, fact, since, until in each
                        ]
                    }
                    for each in facts
                ]
            ),
            "EntitySummaries": Script([by_name(each) for each in summaries]),
        }
    )


ONTOLOGY_ENTITIES: Entities = [
    ("Bellman yard", "Yard"),
    ("Fossum yard", "yard"),
    ("Ingrid Bellman", "Human"),
    ("Oskar Lind", "Human"),
    ("Per Aune", "Human"),
    ("Havsule", "Boat"),
    ("Terna", "Boat"),
    ("Alka", "Boat"),
    # No listed type.
    ("Skarnes", "Town"),
]
ONTOLOGY_FACTS: Sequence[Mapping[str, object]] = (
    {"name": "built by", "source": "Havsule", "target": "Bellman yard", "fact": "The Bellman yard built the Havsule."},
    {
        "name": "BUILT_BY",
        "source": "Terna",
        "target": "Bellman yard",
        "fact": "The Bellman yard built the Terna.",
        # Not a number.
        "attributes": {"crowns": "not known to anybody"},
    },
    {
        # The wrong way round.
        "name": "built by",
        "source": "Bellman yard",
        "target": "Alka",
        "fact": "The Bellman yard built the Alka.",
        "attributes": {"crowns": "6400", "position": None},
    },
    {
        "name": "works at",
        "source": "Oskar Lind",
        "target": "Bellman yard",
        "fact": "Oskar Lind worked at the Bellman yard.",
        "valid_since": "1938",
        "attributes": {"position": "rigger"},
    },
    {
        "name": "works at",
        "source": "Per Aune",
        "target": "Bellman yard",
        "fact": "Per Aune worked at the Bellman yard.",
        "valid_since": "1946",
        "attributes": {"position": "master builder"},
    },
    # Ends that fit neither way round, and a predicate that is not listed.
    {"name": "works at", "source": "Oskar Lind", "target": "Havsule", "fact": "Oskar Lind worked on the Havsule."},
    {"name": "hired", "source": "Ingrid Bellman", "target": "Per Aune", "fact": "Ingrid Bellman hired Per Aune."},
)
ONTOLOGY_SUMMARIES: Mapping[str, Mapping[str, object]] = {
    "Bellman yard": {
        "summary": "A boatyard at Skarnes, opened by Ingrid Bellman.",
        "attributes": {"opened": "1931", "closed": "1987", "people": "nineteen"},
    },
    "Fossum yard": {
        "summary": "A boatyard across the fjord from Skarnes.",
        # The year of another yard, put the wrong way round.
        "attributes": {"opened": 1908, "closed": 1087, "people": None},
    },
    "Ingrid Bellman": {"summary": "Opened the Bellman yard.", "attributes": {"trade": "boatbuilder"}},
    "Oskar Lind": {"summary": "A rigger at the Bellman yard.", "attributes": {"trade": "rigger"}},
    "Per Aune": {"summary": "A master builder at the Bellman yard.", "attributes": {"trade": "master builder"}},
    "Havsule": {
        "summary": "A ketch for the pilots of the outer islands.",
        "attributes": {"metres": "14.5", "launched": 1934, "rig": "ketch"},
    },
    "Terna": {
        "summary": "A sloop that two people could carry; burned in 1990.",
        "attributes": {"metres": "about nine", "launched": "around the war", "rig": "sloop"},
    },
    "Alka": {
        "summary": "A sloop, the yard's last boat.",
        "attributes": {"metres": 8.2, "launched": 1961, "rig": "dinghy"},
    },
}


def ontology_model() -> FakeLLM:
    """Return a model that knows the answers about the page of `ontology.py`, with mistakes among them."""

    def summaries(prompt: FakePrompt) -> Mapping[str, object]:
        return {str(prompt.number(name)): told for name, told in ONTOLOGY_SUMMARIES.items()}

    return FakeLLM(
        {
            "EntityExtraction": {"entities": [{"name": name, "type": kind} for name, kind in ONTOLOGY_ENTITIES]},
            "RelationExtraction": {"relations": list(ONTOLOGY_FACTS)},
            "EntitySummaries": summaries,
        }
    )
