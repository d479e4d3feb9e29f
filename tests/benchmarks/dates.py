"""How many date words are read right, unknown or wrong, beside dateparser alone.

    JIUWEN_MEMORY_DATE_DATA=/path/to/folder python -m tests.benchmarks.dates [--show]

The folder holds `rt_dates.jsonl` (rows from the MIT-licensed specifications of microsoft/Recognizers-Text: lang, kind,
text, ref, past, future) and `duckling_dates.jsonl` (rows from the BSD-licensed corpora of facebook/duckling: lang,
text, ref, grain, value). Of the second, clock times are left out, and names without a direction ("Friday", "March 3"):
there they always lie ahead, here the latest one is meant.
Some rows ask for a lunar date and give its digits, as if they were of the western calendar, as the answer: they are
counted apart, with those digits ("as given") and with the western day that they mean.
"""

from __future__ import annotations

import argparse
import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import dateparser

from jiuwen_memory.foundation.lunar import lunar_day
from jiuwen_memory.foundation.timepoint import Timepoint, resolve_period, resolve_time

VARIABLE = "JIUWEN_MEMORY_DATE_DATA"
LANGUAGES = {"en": "en", "zh": "cn"}
NO_DATE = "0001-01-01"
_LUNAR = re.compile("农历|正月|大年|初[一二三四五六七八九十]|中秋|春节|元宵|端午|重阳|除夕|神龙|雍正|康熙")
_DAY_GRAINS = frozenset({"day", "week", "month", "quarter", "year"})
_DIRECTED = re.compile(
    r"\d{4}|\d/\d\d$|last|next|this|current|previous|past|coming|following|ago|hence|from|yesterday|tomorrow|today"
    r"|[上下今明昨去前后後这這聽]",
    re.IGNORECASE,
)

Answer = str | tuple[str | None, str | None] | None


@dataclass(frozen=True)
class Row:
    """One expression, its reference time and the answers that count as right."""

    group: str
    language: str
    text: str
    reference: datetime
    answers: tuple[Answer, ...]

    @property
    def is_period(self) -> bool:
        """Whether a beginning and an end are asked for."""
        return self.group.endswith("range")


def read_rows(folder: Path) -> Iterator[Row]:
    """Yield the rows of both files that can be compared."""
    for line in (folder / "rt_dates.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        lunar = " lunar" if _LUNAR.search(row["text"]) else ""
        answers = tuple(_answer(row[key]) for key in ("past", "future"))
        reference = datetime.fromisoformat(row["ref"])
        group = f"recognizers {row['lang']}{lunar} {row['kind']}"
        yield Row(group + (" as given" if lunar else ""), row["lang"], row["text"], reference, answers)
        if lunar and row["kind"] == "date":
            yield Row(group, row["lang"], row["text"], reference, tuple(map(_western, answers)))
    for line in (folder / "duckling_dates.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        if row["grain"] not in _DAY_GRAINS or (row["value"] > row["ref"] and not _DIRECTED.search(row["text"])):
            continue
        reference = datetime.fromisoformat(row["ref"]).replace(tzinfo=None)
        yield Row(f"duckling {row['lang']} date", row["lang"], row["text"], reference, (row["value"][:10],))


def _western(answer: Answer) -> Answer:
    """Return the day of the western calendar that the digits of a lunar date mean."""
    if not isinstance(answer, str):
        return answer
    day = lunar_day(*(int(part) for part in answer.split("-")))
    return day.start.isoformat()[:10] if day else answer


def _answer(value: str | list[str | None]) -> Answer:
    if isinstance(value, str):
        return None if value.startswith(NO_DATE) else value
    return (value[0], value[1])


def ours(row: Row) -> Answer:
    """Return what this library makes of a row."""
    language = LANGUAGES[row.language]
    if row.is_period:
        since, until = resolve_period(row.text, row.reference, language=language)
        return None if since is None and until is None else (_shown(since, row), _shown(until, row))
    return _shown(resolve_time(row.text, row.reference, language=language), row)


def _shown(moment: Timepoint | None, row: Row) -> str | None:
    if moment is None:
        return None
    text = moment.iso()[:19].replace("T", " ")
    return text if "time" in row.group else text[:10]


def theirs(row: Row) -> Answer:
    """Return what dateparser alone makes of a row."""
    if row.is_period:
        return None
    language = "zh" if row.language == "zh" else "en"
    found = dateparser.parse(
        row.text, languages=[language], settings={"RELATIVE_BASE": row.reference, "PREFER_DATES_FROM": "past"}
    )
    if found is None:
        return None
    text: str = found.isoformat(sep=" ")
    return text[: 19 if "time" in row.group else 10]


def verdict(answer: Answer, row: Row) -> str:
    """Return right, unknown or wrong."""
    if answer in row.answers or any(_same_period(answer, expected) for expected in row.answers):
        return "right"
    return "unknown" if answer is None else "wrong"


def _same_period(answer: Answer, expected: Answer) -> bool:
    """Compare periods; the specifications give some ends as the last moment meant and others as the first one after."""
    if not isinstance(answer, tuple) or not isinstance(expected, tuple) or answer[0] != expected[0]:
        return False
    if answer[1] is None or expected[1] is None:
        return answer[1] == expected[1] or answer[1] is None
    ends = {answer[1]}
    last = datetime.fromisoformat(answer[1])
    for step in (timedelta(seconds=1), timedelta(days=1)):
        ends.add((last + step).isoformat(sep=" ")[: len(expected[1])])
    return expected[1] in ends


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--show", action="store_true", help="print every row that is not read right")
    arguments = parser.parse_args()
    folder = os.environ.get(VARIABLE)
    if not folder:
        print(f"Skipped: {VARIABLE} does not name the folder with the date data.")
        return
    counts: dict[tuple[str, str], Counter[str]] = {}
    readers: dict[str, Callable[[Row], Answer]] = {"ours": ours, "dateparser": theirs}
    for row in read_rows(Path(folder)):
        for name, reader in readers.items():
            answer = reader(row)
            outcome = verdict(answer, row)
            counts.setdefault((row.group, name), Counter())[outcome] += 1
            if arguments.show and name == "ours" and outcome != "right":
                print(f"{outcome:8}{row.group:28}{row.text!r} at {row.reference}: {answer}, not {set(row.answers)}")
    print(f"{'rows':44}{'reader':12}{'right':>14}{'unknown':>9}{'wrong':>7}")
    for (group, name), count in sorted(counts.items()):
        total = count.total()
        share = f"{count['right']} ({count['right'] / total:.1%})"
        print(f"{group + f' ({total})':44}{name:12}{share:>14}{count['unknown']:>9}{count['wrong']:>7}")


if __name__ == "__main__":
    main()
