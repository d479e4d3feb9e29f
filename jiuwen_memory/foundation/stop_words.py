"""Words too common to search for. Data only; touches nothing."""

from __future__ import annotations

# As search tokens are before stemming: without apostrophes ("dont"). Words that also mean
# something (may, us, ill, shed) are left out.
_ENGLISH = """
    a about above after again all also am an and any are arent as at be because been before being below between both
    but by can cant cannot could couldnt d did didnt do does doesnt doing dont down during each else ever few for from
    further get gets got had hadnt has hasnt have havent having he hed her here hers herself hes him himself his how i
    if im in into is isnt it itd its itself ive just ll lets m many me might more most much must my myself no nor not
    now of off on once only or other our ours ourselves out over own re s same shall she shes should shouldnt so some
    such t than that thats the their theirs them themselves then there theres these they theyre theyve this those
    through to too under until up upon ve very was wasnt we were werent weve what whats when where which while who
    whom whose why will with wont would wouldnt you youd youll your youre yours yourself yourselves youve tell please
"""
_CHINESE = """
    什么 怎么 怎样 如何 哪里 哪儿 哪个 哪些 哪位 多少 为何 是否 有没 没有 我们 你们 他们 她们 它们 这个 那个 这些 那些
    以及 或者 但是 因为 所以 是谁 是什 么时
"""

ENGLISH_STOP_WORDS = frozenset(_ENGLISH.split())
CHINESE_PARTICLES = frozenset("的了吗呢吧啊呀嘛着之")
CHINESE_STOP_PAIRS = frozenset(_CHINESE.split())
