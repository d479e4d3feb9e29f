"""Facts as triples, and as a table of pandas, which is imported when a table is wanted. Values in, values out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import TYPE_CHECKING, Any

from pydantic import JsonValue

from jiuwen_memory.errors import MissingExtraError
from jiuwen_memory.foundation.timepoint import Timepoint, from_datetime

if TYPE_CHECKING:
    from pandas import DataFrame, Series


@dataclass(frozen=True)
class Triple:
    """One fact with its counts and where it was said; `sentence` says it in words.

    `is_current` tells whether it holds now, as far as is known. `episodes` are the ids of the inputs behind it,
    `qualifiers` what else was said of it: time, place and other circumstances, attributes of its type.
    """

    subject: str
    predicate: str
    object: str
    sentence: str
    relation: str
    subject_id: str
    object_id: str
    valid_since: Timepoint | None
    valid_until: Timepoint | None
    is_current: bool
    mention_count: int
    first_mentioned: datetime | None
    last_mentioned: datetime | None
    sources: tuple[str, ...]
    episodes: tuple[str, ...]
    qualifiers: Mapping[str, JsonValue] = field(default_factory=dict, hash=False)


class Triples(list[Triple]):
    """Facts in the order asked for."""

    def to_frame(self) -> DataFrame:
        """Return a pandas frame with a column per field; times are UTC, their precision has columns of its own.

        Raises:
            MissingExtraError: pandas is not installed.
        """
        try:
            import pandas
        except ModuleNotFoundError as error:
            raise MissingExtraError(
                'A frame needs pandas, which is not installed: pip install "jiuwen-graph-memory[pandas]"'
            ) from error
        columns: dict[str, Any] = {each.name: [getattr(one, each.name) for one in self] for each in fields(Triple)}
        for name in ("valid_since", "valid_until"):
            times: list[Timepoint | None] = columns[name]
            columns[name] = _moments([time.seconds if time else None for time in times])
            columns[name.replace("valid", "precision")] = [time.precision if time else None for time in times]
        for name in ("first_mentioned", "last_mentioned"):
            columns[name] = _moments([moment and from_datetime(moment).seconds for moment in columns[name]])
        return pandas.DataFrame(columns)


def _moments(seconds: Sequence[int | None]) -> Series:
    """Return seconds as UTC times to the second, a unit in which all years from 1 to 9999 have room."""
    import pandas

    times = pandas.Series([each or 0 for each in seconds], dtype="int64").astype("datetime64[s]").dt.tz_localize("UTC")
    return times.where(pandas.Series([each is not None for each in seconds], dtype="bool"))
