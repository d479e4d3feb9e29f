"""Forty episodes of one invented life, in English and Chinese: the texts, and what each of them says."""

from __future__ import annotations

from tests.life.story import Chapter, Telling, day

NORA: dict[str, str] = {"Nora Lindqvist": "nora"}
NORA_CN: dict[str, str] = {"诺拉": "nora"}
TOM: dict[str, str] = {"Tom Brandt": "tom"}
HALDEN: dict[str, str] = {"Halden Maps": "halden"}
KESTREL: dict[str, str] = {"Kestrel Robotics": "kestrel"}
AURORA: dict[str, str] = {"Aurora Tech": "aurora"}
AURORA_CN: dict[str, str] = {"极光科技": "aurora"}

CHAPTERS: tuple[Chapter, ...] = (
    Chapter(
        1,
        day("2018-05-02"),
        "Nora Lindqvist has lived in Berlin since March 1, 2018. She has worked at Halden Maps since April 2018.",
        NORA | HALDEN | {"Berlin": "berlin"},
        (
            Telling("nora lives berlin", "Nora Lindqvist lives in Berlin.", "since March 1, 2018"),
            Telling("nora works halden", "Nora Lindqvist works at Halden Maps.", "since April 2018"),
        ),
    ),
    Chapter(
        2,
        day("2018-05-20"),
        "Halden Maps is based in Berlin. Halden Maps was founded by Petra Vogel.",
        HALDEN | {"Berlin": "berlin", "Petra Vogel": "petra"},
        (
            Telling("halden based berlin", "Halden Maps is based in Berlin."),
            Telling("halden founded petra", "Halden Maps was founded by Petra Vogel."),
        ),
    ),
    Chapter(
        3,
        day("2018-06-11"),
        "诺拉的姐姐叫林伊娃。林伊娃住在斯德哥尔摩，是一名医生。",
        NORA_CN | {"林伊娃": "eva", "斯德哥尔摩": "stockholm"},
        (
            Telling("nora sister eva", "诺拉的姐姐是林伊娃。"),
            Telling("eva lives stockholm", "林伊娃住在斯德哥尔摩。"),
        ),
    ),
    Chapter(
        4,
        day("2018-07-02"),
        "Wei Zhang is a dentist at Clinic Parkblick. Clinic Parkblick opened in 2011.",
        {"Wei Zhang": "dentist", "Clinic Parkblick": "parkblick"},
        (Telling("dentist works parkblick", "Wei Zhang is a dentist at Clinic Parkblick."),),
    ),
    Chapter(
        5,
        day("2018-08-15"),
        "Nora Lindqvist has a cat named Pixel. She adopted Pixel from the shelter on August 11, 2018.",
        NORA | {"Pixel": "pixel"},
        (Telling("nora has pixel", "Nora Lindqvist has a cat named Pixel.", "on August 11, 2018"),),
    ),
    Chapter(
        6,
        day("2018-10-03"),
        "诺拉养了一只叫Pixel的猫。诺拉对青霉素过敏。",
        NORA_CN | {"Pixel": "pixel", "青霉素": "penicillin"},
        (
            Telling("nora has pixel", "诺拉养了一只叫Pixel的猫。"),
            Telling("nora allergic penicillin", "诺拉对青霉素过敏。"),
        ),
    ),
    Chapter(
        7,
        day("2019-01-12"),
        "Nora Lindqvist met Tom Brandt at a concert. Tom Brandt works as an architect at Falk Studio.",
        NORA | TOM | {"Falk Studio": "falk"},
        (
            Telling("nora met tom", "Nora Lindqvist met Tom Brandt at a concert."),
            Telling("tom works falk", "Tom Brandt works as an architect at Falk Studio."),
        ),
    ),
    Chapter(
        8,
        day("2019-06-10"),
        "Nora Lindqvist married Tom Brandt on June 8, 2019. The wedding was in Potsdam.",
        NORA | TOM | {"Potsdam": "potsdam"},
        (
            Telling("nora married tom", "Nora Lindqvist is married to Tom Brandt.", "on June 8, 2019"),
            Telling("nora wedding potsdam", "The wedding of Nora Lindqvist was in Potsdam."),
        ),
    ),
    Chapter(
        9,
        day("2019-09-02"),
        "诺拉2019年9月1日离开了Halden Maps，加入了极光科技。极光科技的总部在上海。",
        NORA_CN | HALDEN | AURORA_CN | {"上海": "shanghai"},
        (
            Telling("nora works aurora", "诺拉在极光科技工作。", "2019年9月1日"),
            Telling("aurora based shanghai", "极光科技的总部在上海。"),
        ),
    ),
    Chapter(
        10,
        day("2019-11-20"),
        "Wei Zhang is an engineer at Kestrel Robotics. Kestrel Robotics writes its software in Java.",
        KESTREL | {"Wei Zhang": "engineer", "Java": "java language"},
        (
            Telling("engineer works kestrel", "Wei Zhang is an engineer at Kestrel Robotics."),
            Telling("kestrel uses java", "Kestrel Robotics writes its software in Java."),
        ),
    ),
    Chapter(
        11,
        day("2020-02-14"),
        "The volcano Bromo stands on the island of Java. Tom Brandt climbed Bromo on February 9, 2020.",
        TOM | {"Bromo": "bromo", "Java": "java island"},
        (
            Telling("bromo on java", "The volcano Bromo stands on the island of Java."),
            Telling("tom climbed bromo", "Tom Brandt climbed Bromo.", "on February 9, 2020"),
        ),
    ),
    Chapter(
        12,
        day("2020-04-01"),
        "极光科技的首席执行官是陈立。极光科技生产地图软件。",
        AURORA_CN | {"陈立": "chen"},
        (Telling("aurora led chen", "极光科技的首席执行官是陈立。"),),
    ),
    Chapter(
        13,
        day("2020-07-03"),
        "Nora Lindqvist moved to Paris on July 1, 2020. Tom Brandt moved to Paris with her.",
        NORA | TOM | {"Paris": "paris"},
        (
            Telling("nora lives paris", "Nora Lindqvist lives in Paris.", "on July 1, 2020"),
            Telling("tom lives paris", "Tom Brandt lives in Paris.", "on July 1, 2020"),
        ),
    ),
    Chapter(
        14,
        day("2020-09-09"),
        "Tom Brandt left Falk Studio. He has worked at Atelier Nord since September 1, 2020.",
        TOM | {"Falk Studio": "falk", "Atelier Nord": "nord"},
        (Telling("tom works nord", "Tom Brandt works at Atelier Nord.", "since September 1, 2020"),),
    ),
    Chapter(
        15,
        day("2020-11-11"),
        "诺拉住在巴黎。她从2020年10月起在学法语。",
        NORA_CN | {"巴黎": "paris", "法语": "french"},
        (
            Telling("nora lives paris", "诺拉住在巴黎。"),
            Telling("nora learns french", "诺拉在学法语。", "从2020年10月起"),
        ),
    ),
    Chapter(
        16,
        day("2021-01-05"),
        "Aurora Tech opened an office in Lyon on January 4, 2021.",
        AURORA | {"Lyon": "lyon"},
        (Telling("aurora office lyon", "Aurora Tech has an office in Lyon.", "on January 4, 2021"),),
    ),
    Chapter(
        17,
        day("2021-03-15"),
        "A correction: Halden Maps was founded by Jonas Keller, not by Petra Vogel.",
        HALDEN | {"Jonas Keller": "jonas", "Petra Vogel": "petra"},
        (Telling("halden founded jonas", "Halden Maps was founded by Jonas Keller."),),
    ),
    Chapter(
        18,
        day("2021-04-20"),
        "陈立离开了极光科技。从2021年4月1日起，极光科技的首席执行官是王芳。",
        AURORA_CN | {"陈立": "chen", "王芳": "wang"},
        (Telling("aurora led wang", "极光科技的首席执行官是王芳。", "从2021年4月1日起"),),
    ),
    Chapter(
        19,
        day("2021-06-01"),
        "Nora Lindqvist is a vegetarian.",
        NORA,
        (Telling("nora vegetarian", "Nora Lindqvist is a vegetarian."),),
    ),
    Chapter(
        20,
        day("2021-08-30"),
        "Wei Zhang became head of software at Kestrel Robotics on August 2, 2021.",
        KESTREL | {"Wei Zhang": "engineer"},
        (Telling("engineer heads kestrel", "Wei Zhang is head of software at Kestrel Robotics.", "on August 2, 2021"),),
        {("engineer heads kestrel", "engineer works kestrel"): "elaborates"},
    ),
    Chapter(
        21,
        day("2021-12-24"),
        "Mia Brandt was born on December 20, 2021. Nora Lindqvist is her mother and Tom Brandt is her father.",
        NORA | TOM | {"Mia Brandt": "mia"},
        (
            Telling("nora mother mia", "Nora Lindqvist is the mother of Mia Brandt.", "on December 20, 2021"),
            Telling("tom father mia", "Tom Brandt is the father of Mia Brandt.", "on December 20, 2021"),
        ),
    ),
    Chapter(
        22,
        day("2022-03-03"),
        "Nora Lindqvist moved back to Berlin on March 1, 2022.",
        NORA | {"Berlin": "berlin"},
        (Telling("nora lives berlin", "Nora Lindqvist lives in Berlin.", "on March 1, 2022"),),
    ),
    Chapter(
        23,
        day("2022-04-18"),
        "汤姆·布兰特仍然住在巴黎。汤姆·布兰特是建筑师。",
        {"汤姆·布兰特": "tom", "巴黎": "paris"},
        (Telling("tom lives paris", "汤姆·布兰特住在巴黎。"),),
    ),
    Chapter(
        24,
        day("2022-06-30"),
        "Nora Lindqvist and Tom Brandt are divorced since June 20, 2022.",
        NORA | TOM,
        (Telling("nora divorced tom", "Nora Lindqvist is divorced from Tom Brandt.", "since June 20, 2022"),),
    ),
    Chapter(
        25,
        day("2022-09-05"),
        "Nora Lindqvist left Aurora Tech. She has worked at Kestrel Robotics since September 1, 2022.",
        NORA | AURORA | KESTREL,
        (Telling("nora works kestrel", "Nora Lindqvist works at Kestrel Robotics.", "since September 1, 2022"),),
    ),
    Chapter(
        26,
        day("2022-10-10"),
        "诺拉和Wei Zhang是同事。Wei Zhang在Kestrel Robotics负责软件。",
        NORA_CN | KESTREL | {"Wei Zhang": "engineer"},
        (
            Telling("nora colleague engineer", "诺拉和Wei Zhang是同事。"),
            Telling("engineer heads kestrel", "Wei Zhang在Kestrel Robotics负责软件。"),
        ),
    ),
    Chapter(
        27,
        day("2023-01-15"),
        "Nora Lindqvist is no longer a vegetarian. She has been eating meat again since January 1, 2023.",
        NORA,
        (Telling("nora eats meat", "Nora Lindqvist eats meat again.", "since January 1, 2023"),),
    ),
    Chapter(
        28,
        day("2023-03-08"),
        "极光科技的总部于2023年3月1日从上海迁到了深圳。",
        AURORA_CN | {"上海": "shanghai", "深圳": "shenzhen"},
        (Telling("aurora based shenzhen", "极光科技的总部在深圳。", "2023年3月1日"),),
    ),
    Chapter(
        29,
        day("2023-05-19"),
        "Tom Brandt married Lucie Moreau on May 13, 2023.",
        TOM | {"Lucie Moreau": "lucie"},
        (Telling("tom married lucie", "Tom Brandt is married to Lucie Moreau.", "on May 13, 2023"),),
    ),
    Chapter(
        30,
        day("2023-07-07"),
        "Pixel, the cat of Nora Lindqvist, died on July 1, 2023.",
        NORA | {"Pixel": "pixel"},
        (Telling("nora lost pixel", "Pixel, the cat of Nora Lindqvist, died.", "on July 1, 2023"),),
    ),
    Chapter(
        31,
        day("2023-09-03"),
        "Nora Lindqvist moved to Zurich on September 1, 2023.",
        NORA | {"Zurich": "zurich"},
        (Telling("nora lives zurich", "Nora Lindqvist lives in Zurich.", "on September 1, 2023"),),
    ),
    Chapter(
        32,
        day("2023-09-20"),
        "更正：诺拉没有搬到苏黎世。她于2023年9月1日搬到了巴塞尔。",
        NORA_CN | {"苏黎世": "zurich", "巴塞尔": "basel"},
        (Telling("nora lives basel", "诺拉住在巴塞尔。", "2023年9月1日"),),
    ),
    Chapter(
        33,
        day("2023-11-02"),
        "Lucie Moreau works at Atelier Nord. She is a colleague of Tom Brandt.",
        TOM | {"Lucie Moreau": "lucie", "Atelier Nord": "nord"},
        (
            Telling("lucie works nord", "Lucie Moreau works at Atelier Nord."),
            Telling("lucie colleague tom", "Lucie Moreau is a colleague of Tom Brandt."),
        ),
    ),
    Chapter(
        34,
        day("2024-01-10"),
        "诺拉2024年1月8日升任Kestrel Robotics的制图主管。",
        NORA_CN | KESTREL,
        (Telling("nora leads kestrel", "诺拉是Kestrel Robotics的制图主管。", "2024年1月8日"),),
        {("nora leads kestrel", "nora works kestrel"): "elaborates"},
    ),
    Chapter(
        35,
        day("2024-02-28"),
        "Kestrel Robotics is based in Basel. Aurora Tech bought Kestrel Robotics on February 26, 2024.",
        KESTREL | AURORA | {"Basel": "basel"},
        (
            Telling("kestrel based basel", "Kestrel Robotics is based in Basel."),
            Telling("aurora bought kestrel", "Aurora Tech bought Kestrel Robotics.", "on February 26, 2024"),
        ),
    ),
    Chapter(
        36,
        day("2024-04-04"),
        "Nora Lindqvist still works at Kestrel Robotics.",
        NORA | KESTREL,
        (Telling("nora works kestrel", "Nora Lindqvist works at Kestrel Robotics."),),
    ),
    Chapter(
        37,
        day("2024-06-15"),
        "米娅是诺拉的女儿。米娅从2024年6月3日起在巴塞尔上幼儿园。",
        NORA_CN | {"米娅": "mia", "巴塞尔": "basel"},
        (
            Telling("nora mother mia", "米娅是诺拉的女儿。"),
            Telling("mia kindergarten basel", "米娅在巴塞尔上幼儿园。", "从2024年6月3日起"),
        ),
    ),
    Chapter(
        38,
        day("2024-09-09"),
        "Nora Lindqvist left Kestrel Robotics. She has worked at Halden Maps again since September 1, 2024.",
        NORA | KESTREL | HALDEN,
        (Telling("nora works halden", "Nora Lindqvist works at Halden Maps.", "since September 1, 2024"),),
    ),
    Chapter(
        39,
        day("2024-10-20"),
        "The dentist Wei Zhang left Clinic Parkblick. Wei Zhang has worked at Clinic Seeblick since October 1, 2024.",
        {"Wei Zhang": "dentist", "Clinic Parkblick": "parkblick", "Clinic Seeblick": "seeblick"},
        (Telling("dentist works seeblick", "Wei Zhang is a dentist at Clinic Seeblick.", "since October 1, 2024"),),
    ),
    Chapter(
        40,
        day("2024-12-03"),
        "诺拉于2024年12月1日搬到了日内瓦。",
        NORA_CN | {"日内瓦": "geneva"},
        (Telling("nora lives geneva", "诺拉住在日内瓦。", "2024年12月1日"),),
    ),
)
