"""Replies written for the texts of `quickstart.py`, so that it runs without a model."""

from __future__ import annotations

from jiuwen_memory.testing import FakeLLM, Script, by_name

ENTITIES = (
    [
        ("Marta", "Human"),
        ("Solvane Robotics", "Entity"),
        ("Turin", "Entity"),
        ("Giulia Ferrero", "Human"),
        ("Medtrix", "Entity"),
    ],
    [("Solvane Robotics", "Entity"), ("Giulia Ferrero", "Human"), ("Porto Vecchio", "Entity"), ("Genoa", "Entity")],
)
FACTS = (
    [
        ("works at", "Marta", "Solvane Robotics", "Marta works at Solvane Robotics.", "last Monday", None),
        ("is in", "Solvane Robotics", "Turin", "Solvane Robotics is in Turin.", None, None),
        ("hired", "Giulia Ferrero", "Marta", "Giulia Ferrero hired Marta.", None, None),
        ("runs", "Giulia Ferrero", "Solvane Robotics", "Giulia Ferrero hires for Solvane Robotics.", None, None),
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
SUMMARIES = (
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


def scripted_model() -> FakeLLM:
    """Return a model that knows the answers about the two texts, and nothing else."""
    return FakeLLM(
        {
            "EntityExtraction": Script(
                [{"entities": [{"name": name, "type": kind} for name, kind in entities]} for entities in ENTITIES]
            ),
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
                            for name, source, target, fact, since, until in facts
                        ]
                    }
                    for facts in FACTS
                ]
            ),
            "EntitySummaries": Script([by_name(summaries) for summaries in SUMMARIES]),
        }
    )
