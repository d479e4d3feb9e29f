"""Ten short episodes, five in English and five in Chinese, and by hand what is to be found in them. Touches nothing.

A fact is right when its ends and its words hold one of the alternatives of each part. What is `extra` may be found, and
is then no mistake, but nobody has to find it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from jiuwen_memory import EpisodeType

Words = tuple[str, ...]
"""Alternatives: one of them must be there."""


@dataclass(frozen=True)
class Stated:
    """A fact: who or what it is about, what it says, and what else it names."""

    subject: Words
    predicate: Words
    object: Words
    extra: bool = False


@dataclass(frozen=True)
class Sample:
    """An episode, and what is in it: `entities` by their names, each with its alternatives."""

    name: str
    language: Literal["cn", "en"]
    kind: EpisodeType
    content: str | Sequence[dict[str, str]]
    entities: tuple[Words, ...]
    extra_entities: tuple[Words, ...] = ()
    facts: tuple[Stated, ...] = ()

    @property
    def wanted(self) -> tuple[Stated, ...]:
        """The facts that should be found."""
        return tuple(each for each in self.facts if not each.extra)


def _said(*lines: tuple[str, str]) -> list[dict[str, str]]:
    return [
        {"role": "assistant" if who in ("Bot", "小助手") else "user", "name": who, "content": text}
        for who, text in lines
    ]


def _fact(subject: str, predicate: str, obj: str, *, extra: bool = False) -> Stated:
    about, says, of = (tuple(part.split("|")) for part in (subject, predicate, obj))
    return Stated(about, says, of, extra)


def _names(*names: str) -> tuple[Words, ...]:
    return tuple(tuple(name.split("|")) for name in names)


SAMPLES: tuple[Sample, ...] = (
    Sample(
        name="en-bridge",
        language="en",
        kind=EpisodeType.DOCUMENT,
        content="Hanna Wirth designed the Kessel Bridge in 1962. The bridge crosses the Alm and belongs to Roden.",
        entities=_names("Hanna Wirth", "Kessel Bridge", "Alm", "Roden"),
        extra_entities=_names("1962"),
        facts=(
            _fact("Hanna Wirth", "design", "Kessel Bridge"),
            _fact("Kessel Bridge|bridge", "cross", "Alm"),
            _fact("Kessel Bridge|bridge", "belong|owned|part of", "Roden"),
            _fact("Kessel Bridge|bridge|Hanna Wirth", "design|built|in", "1962", extra=True),
        ),
    ),
    Sample(
        name="en-work",
        language="en",
        kind=EpisodeType.CONVERSATION,
        content=_said(
            ("Paul", "I left Dorn Optics and work at Lumet now. My sister Edda still lives in Graz."),
            ("Bot", "Good luck at Lumet, Paul!"),
        ),
        entities=_names("Paul", "Dorn Optics", "Lumet", "Edda", "Graz"),
        extra_entities=_names("Bot"),
        facts=(
            _fact("Paul", "left|quit|used to", "Dorn Optics"),
            _fact("Paul", "work", "Lumet"),
            _fact("Edda|sister", "live", "Graz"),
            _fact("Paul|Edda", "sister|sibling|brother", "Edda|Paul"),
            _fact("Bot", "luck|wish", "Paul|Lumet", extra=True),
        ),
    ),
    Sample(
        name="en-search",
        language="en",
        kind=EpisodeType.CONVERSATION,
        content=_said(
            ("Ravi", "Can you help me build a search page for the Teal shop? I am nervous about the deadline."),
            ("Bot", "I will draft the search page for the Teal shop today."),
        ),
        entities=_names("Ravi", "Teal shop|Teal"),
        extra_entities=_names("Bot", "search page", "deadline"),
        facts=(
            _fact("Ravi", "want|build|help|ask|need", "search page|Teal"),
            _fact("Bot|AI", "draft|help|offer|will", "search page|Teal|Ravi"),
            _fact("Ravi", "nervous|worr|feel", "deadline|Ravi|nervous"),
            _fact("search page", "for|of|belong", "Teal", extra=True),
        ),
    ),
    Sample(
        name="en-release",
        language="en",
        kind=EpisodeType.DOCUMENT,
        content=(
            "On 15 March 2024 the Heron team released Plover 2.0. Two days later Mina Sato fixed its login in Oslo."
        ),
        entities=_names("Heron team|Heron", "Plover 2.0|Plover", "Mina Sato", "Oslo"),
        extra_entities=_names("login|Plover login"),
        facts=(
            _fact("Heron", "release|deploy|publish", "Plover"),
            _fact("Mina Sato", "fix", "login|Plover"),
            _fact("Mina Sato", "in|at|fix", "Oslo", extra=True),
        ),
    ),
    Sample(
        name="en-garden",
        language="en",
        kind=EpisodeType.CONVERSATION,
        content=_said(
            ("Lena", "Yesterday I planted quinces with Tom in the Marsh garden. Tom is allergic to bees."),
            ("Tom", "And Lena is the best gardener in Wells!"),
        ),
        entities=_names("Lena", "Tom", "Marsh garden|Marsh", "Wells"),
        extra_entities=_names("quinces|quince", "bees|bee"),
        facts=(
            _fact("Lena", "plant", "quince|Marsh|Tom"),
            _fact("Tom", "allerg", "bee|Tom"),
            _fact("Lena", "garden", "Wells|best"),
            _fact("Tom", "plant", "quince|Marsh|Lena", extra=True),
        ),
    ),
    Sample(
        name="cn-bridge",
        language="cn",
        kind=EpisodeType.DOCUMENT,
        content="1987年，工程师贺兰山设计了云渡桥。云渡桥横跨青溪，由南浦县管理。",
        entities=_names("贺兰山", "云渡桥", "青溪", "南浦县|南浦"),
        extra_entities=_names("1987年|1987"),
        facts=(
            _fact("贺兰山", "设计", "云渡桥"),
            _fact("云渡桥", "横跨|跨", "青溪"),
            _fact("南浦县|云渡桥", "管理", "云渡桥|南浦县"),
            _fact("云渡桥|贺兰山", "设计|建|于", "1987", extra=True),
        ),
    ),
    Sample(
        name="cn-work",
        language="cn",
        kind=EpisodeType.CONVERSATION,
        content=_said(
            ("秦朗", "我从星河软件辞职了，现在在蓝鲸科技上班。我姐姐秦月还住在泉州。"),
            ("小助手", "祝你在蓝鲸科技顺利！"),
        ),
        entities=_names("秦朗", "星河软件", "蓝鲸科技", "秦月", "泉州"),
        extra_entities=_names("小助手"),
        facts=(
            _fact("秦朗", "辞职|离开|曾", "星河软件"),
            _fact("秦朗", "上班|工作|任职|就职", "蓝鲸科技"),
            _fact("秦月|姐姐", "住|居住", "泉州"),
            _fact("秦月|秦朗", "姐姐|姐弟|姐", "秦朗|秦月"),
            _fact("小助手", "祝", "秦朗|蓝鲸科技", extra=True),
        ),
    ),
    Sample(
        name="cn-trip",
        language="cn",
        kind=EpisodeType.CONVERSATION,
        content=_said(
            ("韩雪", "上周五我和陶然在松江爬了佘山，太开心了！陶然对花生过敏。"), ("陶然", "下次我想去看桐庐的瀑布。")
        ),
        entities=_names("韩雪", "陶然", "佘山", "桐庐"),
        extra_entities=_names("松江", "花生", "瀑布|桐庐瀑布|桐庐的瀑布"),
        facts=(
            _fact("韩雪", "爬", "佘山|陶然"),
            _fact("陶然", "过敏", "花生|陶然"),
            _fact("陶然", "想|打算|计划", "桐庐|瀑布"),
            _fact("陶然", "爬", "佘山|韩雪", extra=True),
            _fact("韩雪", "开心|高兴", "韩雪|佘山", extra=True),
        ),
    ),
    Sample(
        name="cn-release",
        language="cn",
        kind=EpisodeType.DOCUMENT,
        content="2024年3月15日，白鹭团队发布了沧海系统3.0。两天后，卢俊在成都修复了它的登录问题。",
        entities=_names("白鹭团队|白鹭", "沧海系统3.0|沧海系统|沧海", "卢俊", "成都"),
        extra_entities=_names("登录问题|登录"),
        facts=(
            _fact("白鹭", "发布|上线", "沧海"),
            _fact("卢俊", "修复|解决", "登录|沧海"),
            _fact("卢俊", "在|修复", "成都", extra=True),
        ),
    ),
    Sample(
        name="cn-school",
        language="cn",
        kind=EpisodeType.CONVERSATION,
        content=_said(
            ("方茹", "我在青禾中学教化学，班上有个学生叫丁一，他得了省赛金奖。"), ("小助手", "丁一真厉害，恭喜方老师！")
        ),
        entities=_names("方茹|方老师", "青禾中学", "丁一"),
        extra_entities=_names("小助手", "化学", "省赛金奖|省赛|金奖"),
        facts=(
            _fact("方茹", "教|任教|老师", "青禾中学|化学"),
            _fact("丁一", "学生", "方茹|青禾中学|丁一"),
            _fact("丁一", "得|获", "金奖|省赛"),
            _fact("小助手", "恭喜", "方茹|丁一|方老师", extra=True),
        ),
    ),
)
