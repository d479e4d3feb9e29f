"""Pairs that are one thing or two, and things with what one text tells of each. Touches nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Language = Literal["cn", "en"]


@dataclass(frozen=True)
class Pair:
    """A stored thing with what is known of it, and a name told later in a sentence: the same thing or another one."""

    stored: str
    known: str
    told: str
    text: str
    is_same: bool
    type_name: str = "Human"


@dataclass(frozen=True)
class Portrait:
    """A thing, what the text tells of it, and the word by which a description shows that it tells this."""

    name: str
    text: str
    sign: str
    type_name: str = "Human"


def _human(stored: str, known: str, told: str, text: str, *, same: bool) -> Pair:
    return Pair(stored, known, told, text, same)


def _other(stored: str, known: str, told: str, text: str, *, same: bool) -> Pair:
    return Pair(stored, known, told, text, same, "Entity")


PAIRS: dict[Language, tuple[Pair, ...]] = {
    "en": (
        _human(
            "Dr. Anna Keller",
            "Dr. Anna Keller is a surgeon at the Marien clinic.",
            "Anna Keller",
            "Anna Keller operated at the Marien clinic on Saturday.",
            same=True,
        ),
        _human(
            "Tom Becker",
            "Tom Becker is twelve and plays the cello.",
            "Tom Becker sen.",
            "Tom Becker sen. drives his grandson to the cello lesson.",
            same=False,
        ),
        _other(
            "Lumet GmbH", "Lumet GmbH makes street lamps in Graz.", "Lumet", "Lumet sold forty street lamps.", same=True
        ),
        _other(
            "Plover 1.0",
            "Plover 1.0 was the release of 2022.",
            "Plover 2.0",
            "Plover 2.0 needs a new database.",
            same=False,
        ),
        _human(
            "Yusuf Demir",
            "Yusuf Demir coaches the rowing club of Varna.",
            "Coach Demir",
            "Coach Demir moved the rowing club's training to six.",
            same=True,
        ),
        _human(
            "Mina Sato",
            "Mina Sato is an engineer in Oslo.",
            "Mika Sato",
            "Mika Sato, Mina's brother, came to visit her.",
            same=False,
        ),
        _other(
            "St. Olaf Hospital",
            "St. Olaf Hospital stands in Trondheim.",
            "Saint Olaf Hospital",
            "Saint Olaf Hospital in Trondheim opened a new wing.",
            same=True,
        ),
        _other(
            "Marsh garden",
            "The Marsh garden grows quinces.",
            "Marsh Garden Street",
            "Marsh Garden Street is closed to cars.",
            same=False,
        ),
        _human(
            "Katherine Wells",
            "Katherine Wells, called Kate, runs the bakery in Roden.",
            "Kate Wells",
            "Kate Wells sold the bakery's last rye loaf.",
            same=True,
        ),
        _human(
            "Paul Dorn", "Paul Dorn left Dorn Optics.", "Paula Dorn", "Paula Dorn now leads Dorn Optics.", same=False
        ),
        _other(
            "Heron project",
            "The Heron project maps the coast of Istria.",
            "project Heron",
            "project Heron finished its map of Istria.",
            same=True,
        ),
        _other(
            "Alm river bridge",
            "The Alm river bridge is made of steel.",
            "Alm river festival",
            "The Alm river festival begins in June.",
            same=False,
        ),
    ),
    "cn": (
        _human("陈立群医生", "陈立群医生在仁和医院做外科。", "陈立群", "陈立群周六在仁和医院做了手术。", same=True),
        _human("林小雨", "林小雨十二岁，学大提琴。", "林小雨的奶奶", "林小雨的奶奶送她去上大提琴课。", same=False),
        _other(
            "蓝鲸科技有限公司", "蓝鲸科技有限公司在泉州生产路灯。", "蓝鲸科技", "蓝鲸科技卖出了四十盏路灯。", same=True
        ),
        _other("沧海系统2.0", "沧海系统2.0是2022年发布的。", "沧海系统3.0", "沧海系统3.0需要新的数据库。", same=False),
        _human("叶青", "叶青是松江划船队的教练。", "叶教练", "叶教练把划船队的训练改到六点。", same=True),
        _human("秦朗", "秦朗是工程师，住在成都。", "秦月", "秦月是秦朗的姐姐，她来看弟弟。", same=False),
        _other("青禾中学", "青禾中学在桐庐县。", "桐庐县青禾中学", "桐庐县青禾中学新建了一栋楼。", same=True),
        _other("云渡桥", "云渡桥横跨青溪。", "云渡桥路", "云渡桥路今天禁止车辆通行。", same=False),
        _human("方茹", "方茹在青禾中学教化学。", "方茹老师", "方茹老师今天讲了化学实验。", same=True),
        _human("王建国", "王建国离开了星河软件。", "王建华", "王建华现在管理星河软件。", same=False),
        _other("白鹭项目", "白鹭项目测绘东海岸。", "白鹭计划", "白鹭计划完成了东海岸的测绘。", same=True),
        _other("佘山步道", "佘山步道全长五公里。", "佘山音乐节", "佘山音乐节六月开幕。", same=False),
    ),
}

PORTRAITS: dict[Language, tuple[Portrait, ...]] = {
    "en": (
        Portrait("Anna Keller", "Anna Keller is a surgeon.", "surgeon"),
        Portrait("Tom Becker", "Tom Becker plays the cello.", "cello"),
        Portrait("Lumet", "Lumet makes street lamps.", "lamp", "Entity"),
        Portrait("Plover", "Plover is a database.", "database", "Entity"),
        Portrait("Yusuf Demir", "Yusuf Demir coaches rowing.", "rowing"),
        Portrait("Mina Sato", "Mina Sato lives in Oslo.", "oslo"),
        Portrait("Kessel Bridge", "Kessel Bridge is made of steel.", "steel", "Entity"),
        Portrait("Marsh garden", "Marsh garden grows quinces.", "quince", "Entity"),
        Portrait("Kate Wells", "Kate Wells bakes rye bread.", "rye"),
        Portrait("Paul Dorn", "Paul Dorn is allergic to bees.", "bee"),
        Portrait("Heron", "Heron maps the coast of Istria.", "istria", "Entity"),
        Portrait("Edda", "Edda teaches chemistry.", "chemi"),
    ),
    "cn": (
        Portrait("陈立群", "陈立群是外科医生。", "外科"),
        Portrait("林小雨", "林小雨学大提琴。", "大提琴"),
        Portrait("蓝鲸科技", "蓝鲸科技生产路灯。", "路灯", "Entity"),
        Portrait("沧海", "沧海是一个数据库。", "数据库", "Entity"),
        Portrait("叶青", "叶青是划船教练。", "划船"),
        Portrait("秦朗", "秦朗住在成都。", "成都"),
        Portrait("云渡桥", "云渡桥是钢造的。", "钢", "Entity"),
        Portrait("青园", "青园种着木瓜。", "木瓜", "Entity"),
        Portrait("方茹", "方茹烤黑麦面包。", "黑麦"),
        Portrait("王建国", "王建国对蜜蜂过敏。", "过敏"),
        Portrait("白鹭", "白鹭测绘东海岸。", "海岸", "Entity"),
        Portrait("丁一", "丁一教化学。", "化学"),
    ),
}
