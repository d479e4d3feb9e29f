"""Feasts by the names that English and Chinese give them, on the days of the western calendar. Pure functions."""

from __future__ import annotations

from datetime import datetime, timedelta

from jiuwen_memory.foundation.lunar import LUNAR_LAST_DAY, lunar_day, solar_term
from jiuwen_memory.foundation.timeline import Reading, day_of, easter, floor, weekday_of_month

_FIXED = {
    (1, 1): "new year|new year's|new year's day|new years day|yuandan|元旦|元旦节",
    (2, 2): "groundhog day",
    (2, 14): "valentine's day|valentine's|st valentine's day|情人节|圣瓦伦丁节",
    (3, 7): "女生节",
    (3, 8): "international women's day|women's day|妇女节|三八节|三八妇女节|女神节",
    (3, 12): "植树节",
    (3, 14): "pi day|白色情人节",
    (3, 17): "st patrick's day|saint patrick's day|圣帕特里克节",
    (4, 1): "april fools' day|april fools|april fools day|april fool's day|愚人节",
    (4, 22): "earth day|世界地球日|地球日",
    (5, 1): "may day|international workers' day|五一|五一劳动节|五一节|劳动节|国际劳动节",
    (5, 4): "青年节|五四青年节",
    (6, 1): "international children's day|儿童节|六一|六一儿童节|国际儿童节",
    (6, 19): "juneteenth",
    (7, 1): "canada day|建党节",
    (7, 4): "independence day|us independence day|fourth of july|美国独立日",
    (7, 14): "bastille day",
    (8, 1): "建军节|八一建军节",
    (9, 10): "教师节",
    (10, 1): "国庆|国庆节|十一国庆|十一国庆节",
    (10, 31): "halloween|万圣夜|万圣节前夜|万圣节",
    (11, 1): "all saints' day|all saints day|all hallows' day",
    (11, 5): "guy fawkes night|guy fawkes day|bonfire night",
    (11, 11): "veterans day|veterans' day|remembrance day|armistice day|singles day|singles' day|光棍节|双十一|双11",
    (12, 12): "双十二",
    (12, 24): "christmas eve|xmas eve|平安夜|圣诞前夜|圣诞夜",
    (12, 25): "christmas|christmas day|xmas|xmas day|圣诞|圣诞节",
    (12, 26): "boxing day|st stephen's day|节礼日",
    (12, 31): "new year's eve|new years eve|new year eve|除旧迎新夜|跨年夜",
}
# Month, weekday (Monday is 0), which one (-1 is the last), days after it.
_MOVING = {
    (1, 0, 3, 0): "martin luther king day|martin luther king jr day|mlk day|马丁路德金日",
    (2, 0, 3, 0): "presidents' day|presidents day|president's day|washington's birthday",
    (5, 6, 2, 0): "mother's day|mothers' day|mothers day|母亲节",
    (5, 0, -1, 0): "memorial day",
    (6, 6, 3, 0): "father's day|fathers' day|fathers day|父亲节",
    (9, 0, 1, 0): "labor day|labour day|美国劳动节",
    (10, 0, 2, 0): "columbus day|indigenous peoples' day",
    (11, 3, 4, 0): "thanksgiving|thanksgiving day|thanks giving day|thanks giving|感恩节",
    (11, 3, 4, 1): "black friday|黑色星期五",
    (11, 3, 4, 4): "cyber monday|网络星期一",
}
_FROM_EASTER = {
    -47: "shrove tuesday|mardi gras|fat tuesday|pancake day",
    -46: "ash wednesday",
    -7: "palm sunday",
    -3: "maundy thursday",
    -2: "good friday|耶稣受难日",
    0: "easter|easter sunday|easter day|复活节",
    1: "easter monday",
    39: "ascension day",
    49: "pentecost|whit sunday",
    50: "whit monday",
    60: "corpus christi",
}
# Month and day by the moon. 小年 is left out: the 23rd in the north, the 24th in the south.
_LUNAR = {
    (1, 1): "chinese new year|lunar new year|spring festival|春节|大年初一|农历新年",
    (1, 15): "lantern festival|元宵|元宵节|上元节",
    (5, 5): "dragon boat festival|端午|端午节",
    (7, 7): "qixi|qixi festival|七夕|七夕节",
    (7, 15): "中元节",
    (8, 15): "mid-autumn festival|mid autumn festival|moon festival|中秋|中秋节|八月节",
    (9, 9): "double ninth festival|重阳|重阳节",
    (12, 8): "laba festival|腊八|腊八节",
    (12, LUNAR_LAST_DAY): "chinese new year's eve|lunar new year's eve|除夕|除夕夜|大年三十|年三十|大年夜|年三十晚上",
}
# Not 雨水, 小雪, 大雪, which are rain and snow more often than terms.
_TERMS = {
    "立春": "立春",
    "惊蛰": "惊蛰",
    "春分": "春分",
    "清明": "清明|清明节|qingming|qingming festival|tomb-sweeping day",
    "谷雨": "谷雨",
    "立夏": "立夏",
    "小满": "小满",
    "芒种": "芒种",
    "夏至": "夏至",
    "小暑": "小暑",
    "大暑": "大暑",
    "立秋": "立秋",
    "处暑": "处暑",
    "白露": "白露",
    "秋分": "秋分",
    "寒露": "寒露",
    "霜降": "霜降",
    "立冬": "立冬",
    "冬至": "冬至",
    "小寒": "小寒",
    "大寒": "大寒",
}
_FIXED_DAYS = {name: day for day, names in _FIXED.items() for name in names.split("|")}
_MOVING_DAYS = {name: rule for rule, names in _MOVING.items() for name in names.split("|")}
_EASTER_DAYS = {name: days for days, names in _FROM_EASTER.items() for name in names.split("|")}
_TERM_NAMES = {name: term for term, names in _TERMS.items() for name in names.split("|")}
_LUNAR_DAYS = {name: day for day, names in _LUNAR.items() for name in names.split("|")}


def feast_of(name: str, year: int) -> Reading | None:
    """Return the day of a feast in a year, or None if it is not known."""
    if name in _FIXED_DAYS:
        return day_of(year, *_FIXED_DAYS[name])
    if name in _EASTER_DAYS:
        return Reading(easter(year) + timedelta(days=_EASTER_DAYS[name]), "day")
    if name in _LUNAR_DAYS:
        # 腊八 may come twice in a year, and in another not at all.
        found = (lunar_day(lunar_year, *_LUNAR_DAYS[name]) for lunar_year in (year - 1, year))
        inside = [day for day in found if day is not None and day.start.year == year]
        return inside[0] if len(inside) == 1 else None
    if name in _TERM_NAMES:
        return solar_term(_TERM_NAMES[name], year)
    if name in _MOVING_DAYS:
        month, weekday, number, days = _MOVING_DAYS[name]
        first = weekday_of_month(datetime(year, month, 1), weekday, number)
        return Reading(first + timedelta(days=days), "day") if first else None
    return None


def is_feast(name: str) -> bool:
    """Tell whether this is the name of a feast."""
    return any(name in names for names in (_FIXED_DAYS, _MOVING_DAYS, _EASTER_DAYS, _LUNAR_DAYS, _TERM_NAMES))


def latest_feast(name: str, now: datetime) -> Reading | None:
    """Return the last day of a feast that has begun, or None if it is not known."""
    if name in _LUNAR_DAYS:
        days = (lunar_day(year, *_LUNAR_DAYS[name]) for year in (now.year, now.year - 1, now.year - 2))
        return next((day for day in days if day is not None and day.start <= floor(now, "day")), None)
    for year in range(now.year, max(now.year - 2, 0), -1):
        reading = feast_of(name, year)
        if reading is not None and reading.start <= floor(now, "day"):
            return reading
    return None
