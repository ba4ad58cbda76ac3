"""Free words on the manner of speaking, turned into what this voice can do; the rest is named, never dropped.

Emotions are prosody presets: they move pitch, its range and the speed, and cannot act. Wordings are Chinese, English
and Japanese.
"""

import re
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Manner:
    """How to bend a performance."""

    speed: float = 1.0  # 2 = twice as fast
    shift: float = 0.0  # semitones up
    spread: float = 1.0  # of the pitch about its median, in log Hz; 0 = monotone
    gain: float = 1.0  # of the samples
    whisper: bool = False  # noise instead of a voice
    language: str = ""  # asked for by name

    def __or__(self, other: "Manner") -> "Manner":
        """Both at once."""
        return Manner(
            self.speed * other.speed,
            self.shift + other.shift,
            self.spread * other.spread,
            self.gain * other.gain,
            self.whisper or other.whisper,
            other.language or self.language,
        )


HAPPY = Manner(speed=1.1, shift=3, spread=1.5)
SAD = Manner(speed=0.9, shift=-2, spread=0.6)

# Longest wordings first in each row; rows in order of precedence.
PRESETS: tuple[tuple[str, Manner], ...] = (
    (r"(?:as )?fast as possible|尽可能快(?:速)?|尽量快|最快|できるだけ速く", Manner(speed=1.7)),
    (r"(?:as )?slow(?:ly)? as possible|尽可能慢|尽量慢|最慢", Manner(speed=0.6)),
    (
        r"低沉|低音|(?:音调|声调|音高|声音)(?:低|降低|放低)|降低(?:音调|声调|音高)|低い声"
        r"|low(?:er)?[- ]?(?:pitch(?:ed)?|voice|tone)|deep(?:er)?(?: voice)?",
        Manner(shift=-4),
    ),
    (
        r"尖细|高音|(?:音调|声调|音高)(?:高|升高|提高)|(?:升高|提高)(?:音调|声调|音高)|高い声"
        r"|high(?:er)?[- ]?(?:pitch(?:ed)?|voice|tone)",
        Manner(shift=4),
    ),
    (r"耳语|悄悄话?|悄声|低语|气声|whisper(?:ing|ed|s)?|ささやき|ささやく(?:ように)?|囁", Manner(whisper=True)),
    (r"机器人|机械(?:音|声)?|单调|平板|robot(?:ic)?|monotone|monotonous|ロボット", Manner(spread=0.0)),
    (r"轻声|小声|低声|音量(?:小|低)|quiet(?:ly|er)?|soft(?:ly|er)?|小さな声|小声", Manner(gain=0.45)),
    (r"大声|响亮|洪亮|高声|音量(?:大|高)|loud(?:ly|er)?|大きな声", Manner(gain=1.8)),
    (
        r"快速|加快|快点|语速(?:偏|较|要)?快|快|急促|速く|早口|fast(?:er)?|quick(?:ly|er)?|rapid(?:ly)?",
        Manner(speed=1.3),
    ),
    (r"慢速|缓慢|放慢|减慢|慢慢|慢点|语速(?:偏|较|要)?慢|慢|ゆっくり|slow(?:ly|er)?", Manner(speed=0.77)),
    (
        r"兴奋|激动|高兴|开心|快乐|欢快|喜悦|愉快|欢乐|活泼|嬉し(?:そうに|い)|楽し(?:そうに|く|い)|興奮"
        r"|excited(?:ly)?|excitement|happ(?:y|ily|iness)|cheerful(?:ly)?|joy(?:ful|fully)?",
        HAPPY,
    ),
    (
        r"悲伤|伤心|难过|悲痛|忧伤|哀伤|低落|沮丧|悲し(?:そうに|く|い)|sad(?:ly|ness)?|sorrow(?:ful|fully)?",
        SAD,
    ),
    (
        r"平静|冷静|平和|沉稳|镇定|温柔|柔和|落ち着い(?:て|た)|穏やか|calm(?:ly)?|gentl[ey]|relaxed",
        SAD,
    ),
    (r"普通话|国语|中文|汉语|华语|中国語|mandarin|chinese", Manner(language="zh")),
    (r"英语|英文|英語|english", Manner(language="en")),
    (r"日语|日文|日本語|japanese", Manner(language="ja")),
)
# Named whole in the refusal, though "话" alone asks for nothing.
DIALECT = (
    r"(?:广东|四川|东北|上海|天津|山东|山西|河南|河北|陕西|湖南|湖北|江西|云南|贵州|宁夏|甘肃|闽南|客家|长沙|武汉|重庆|南京"
    r"|苏州|杭州|温州|北京|台湾|香港|福建|浙江|安徽|郑州|西安)(?:话|方言|口音|腔)|[粤吴闽湘赣]语"
)
STRONGER = r"(?:非常|很|特别|十分|极其|超级?|very|really|extremely|so|とても|すごく)"
NEGATED = r"(?:不要太?|别太?|不太?|勿|don'?t(?: be)?|do not(?: be)?|not(?: too| so)?|without)"
ORDER = re.compile(
    rf"(?P<dialect>{DIALECT})|(?P<no>{NEGATED}\s*)?(?P<very>{STRONGER}\s*(?:地|的)?)?(?:"
    + "|".join(f"(?P<p{number}>{wording})" for number, (wording, _) in enumerate(PRESETS))
    + ")",
    re.IGNORECASE,
)
# Words that ask for nothing by themselves.
FILLER = re.compile(
    r"<\|endofprompt\|>|you are a helpful assistant"
    r"|这句话|这段话|这段(?:文字|文本|内容)|下面的?|以下的?|一句话|一段话|说话|语气|口吻|语调|声调|腔调|语速|速度|声音|嗓音|音色"
    r"|音调|音量|情感|情绪|感觉|心情|风格|方式|状态|朗读|朗诵|播报|播放|念出来?|读出来?|说出来?|讲出来?|表达|尽可能|尽量|稍微"
    r"|略微|有点|一点|一些|一下|帮我|希望|体验|能够|可以|并且|而且|同时|带着|充满|"
    + STRONGER
    + r"|[请用以的地得着来去说读念讲出播把将让给和与并且又再我你他这那话句段种个点些语一想吗呢吧]"
    r"|[、，。！？；：“”‘’\"'.,!?;:()（）\-\s]"
    r"|\b(?:please|say|speak|read|talk|tell|use|using|with|in|at|on|a|an|the|this|that|it|its|tone|voice|manner|way|style"
    r"|pace|speed|rate|pitch|volume|emotion|feeling|mood|sentence|text|line|words?|following|aloud|out|as|to|of|and|but"
    r"|by|more|bit|little|slightly|me|my|your?|be|being|is|are|sound|sounding|like|talking|speaking|reading)\b"
    r"|ください|下さい|話して|言って|読んで|しゃべって|喋って|声で|声|口調で|口調|感じで|ように|風に|ちょっと|少し|もっと"
    r"|[でにをのはがとてくだよう]",
    re.IGNORECASE,
)


def parse(instruct: str) -> tuple[Manner, list[str]]:
    """Read an instruction: what can be honoured, all together, and the words that cannot, as written."""
    manner, refused = Manner(), list[str]()
    used: set[int] = set()
    rest, start = "", 0
    for match in ORDER.finditer(instruct):
        rest += instruct[start : match.start()] + "\n"
        start = match.end()
        if match["no"] or match["dialect"]:
            refused.append(match[0].strip())
            continue
        number = next(n for n in range(len(PRESETS)) if match[f"p{n}"] is not None)
        if number not in used:  # "calm and gentle" is one wish
            manner |= strengthened(PRESETS[number][1]) if match["very"] else PRESETS[number][1]
        used.add(number)
    rest += instruct[start:]
    return manner, refused + [word.strip() for word in FILLER.sub("\n", rest).split("\n") if word.strip()]


def strengthened(preset: Manner) -> Manner:
    """Half as much again of everything that has a measure."""
    return replace(
        preset,
        speed=preset.speed**1.5,
        shift=preset.shift * 1.5,
        spread=preset.spread**1.5,
        gain=preset.gain**1.5,
    )
