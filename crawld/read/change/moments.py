"""Expressions in a text that go with the visit: "3 hours ago", the date of the day, a clock, "1,234 views".

Such an expression differs between two visits although the page was not edited. An expression of time is left out of the
comparison where it moved as time did; any other difference, such as an edited date or digit, counts. Where a block
that holds an expression differed in nothing else again and again, the block is known by the rest of it.
"""

import re
from bisect import bisect_right
from collections import deque
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from enum import IntEnum
from functools import lru_cache
from typing import ClassVar
from zlib import crc32

from crawld.model.crawl import Digest
from crawld.model.units import DAY
from crawld.read.page.rules import compile_linear


@dataclass(frozen=True)
class MomentsLimits:
    """Numbers that bound and tune this module."""

    max_moments: int = 512
    """A page with more expressions of time is compared word by word: what is remembered of a page is bounded."""
    max_block: int = 2_000
    """Blocks of more characters are running text, in which expressions of time are not looked for."""
    max_count: int = 16
    max_label: int = 40
    """Blocks of more characters are no number, and do not say what a number beside them counts."""
    max_misses: int = 8
    """A block in which so many times what looks like an expression of time is none was made to be slow: it names
    none."""
    near_days: float = 1.6  # the date of the day, in whatever time zone
    clock_slack: int = 120  # seconds: the server's clock, and a page that was cached for a moment
    min_share: float = 0.01
    """A shown time moves on once per unit: within a hundredth of the unit it hardly does, and a difference is an
    edit."""
    max_varying: int = 256
    enough: int = 2
    """After so many differences a block is known to vary."""
    max_rest: int = 60
    """Visits without a difference after which it is ordinary text again."""


LIMITS = MomentsLimits()


class TimeGrammar:
    """Patterns of expressions of time and of counters in several languages, each built from those above it."""

    unit_seconds = (1, 60, 3_600, 86_400, 604_800, 2_629_800, 31_557_600)
    units = (
        r"seconds?|secs?|sekunden?|secondes?|segundos?|second[oi]|seconden|секунд\w{0,3}|秒",
        r"minutes?|mins?|minuten?|minutos?|minut[oi]|минут\w{0,3}|分钟|分",
        r"hours?|hrs?|stunden?|heures?|horas?|or[ae]|uur|uren|час\w{0,3}|小时|時間",
        r"days?|tag(?:en?)?|jours?|d[ií]as?|giorn[oi]|dag(?:en)?|дн\w{1,2}|день|天|日",
        r"weeks?|wochen?|semaines?|semanas?|settiman[ae]|weken|недел\w{1,2}|周|週間",
        r"months?|monat(?:en?)?|mois|mes(?:es|i|e)?|maand(?:en)?|месяц\w{0,2}|个月|か月",
        r"years?|jahr(?:en?)?|ans?|années?|años?|ann[oi]|jaar|лет|год\w?|年",
    )
    short_units = "smhdw"
    unit = "|".join(units)
    amount = r"(?:\d{1,4}|an?(?: few)?|one|einer?|einem|une?|una|uno)"
    part = rf"{amount}\s?(?:{unit})"
    parts = rf"{part}(?:,?\s(?:(?:and|und|et|y|e)\s)?{part}){{0,2}}"
    ago = r"(?:ago|fa|geleden|назад|atrás|left|remaining|to go|from now)"
    month_names = (
        "january jan januar janvier enero ene gennaio januari janeiro",
        "february feb februar février fév febrero febbraio februari fevereiro",
        "march mar märz mrz mars marzo maart março",
        "april apr avril avr abril abr aprile",
        "may mai mayo mag maggio mei maio",
        "june jun juni juin junio giugno junho",
        "july jul juli juillet julio luglio julho",
        "august aug août agosto augustus",
        "september sep sept septembre septiembre settembre setembro",
        "october oct oktober okt octobre octubre ottobre outubro",
        "november nov novembre noviembre novembro",
        "december dec dezember dez décembre déc diciembre dic dicembre dezembro",
    )
    months: ClassVar[dict[str, int]] = {
        name: number for number, names in enumerate(month_names, 1) for name in names.split()
    }
    month = rf"(?:{'|'.join(sorted(months, key=len, reverse=True))})\b\.?"
    weekday = (
        r"(?:(?:mon|tues?|wed(?:nes)?|thu(?:rs)?|fri|sat(?:ur)?|sun)(?:day)?|(?:mon|diens|donners|frei|sams|sonn)tag"
        r"|mittwoch|lundi|mardi|mercredi|jeudi|vendredi|samedi|dimanche|lunes|martes|miércoles|jueves|viernes|sábado|domingo)"
    )
    year = r"(?:19|20)\d\d"
    numeric_date = (
        rf"(?:{year}[-/.]\d{{1,2}}[-/.]\d{{1,2}}|\d{{1,2}}[-/.]\d{{1,2}}[-/.](?:{year}|\d\d)"
        rf"|{year}年\d{{1,2}}月\d{{1,2}}日)"
    )
    day = r"\d{1,2}(?:st|nd|rd|th|er|\.)?"
    date = (
        rf"(?:{weekday}\.?,?\s)?(?:{numeric_date}|{day}\s(?:of\s|de\s)?{month}(?:,?\s(?:de\s)?{year})?"
        rf"|{month}\s{day}(?:,?\s{year})?)"
    )
    clock = r"(?:[01]?\d|2[0-3]):[0-5]\d(?::[0-5]\d(?:\.\d{1,6})?)?(?:\s?[ap]\.?m\b\.?)?"
    named: ClassVar[dict[str, int]] = {
        "just now": 0, "right now": 0, "moments ago": 0, "a moment ago": 0, "gerade eben": 0, "à l'instant": 0,
        "today": 3, "heute": 3, "aujourd'hui": 3, "yesterday": 3, "gestern": 3, "ayer": 3, "ieri": 3, "vorgestern": 3,
    }  # fmt: skip
    ages: ClassVar[dict[str, int]] = {"yesterday": DAY, "gestern": DAY, "ayer": DAY, "ieri": DAY, "vorgestern": 2 * DAY}
    day_count = (  # "Day 12": the days since something began
        r"(?:day|tag|jour|d[ií]a|giorno|dag|день)\s(?:#|no\.?\s|nr\.?\s)?\d{1,5}"
        r"|第\s?\d{1,5}\s?(?:天|日)"
    )
    relative = (
        rf"(?:(?:about|almost|over|around|less than|ca\.)\s)?{parts}\s{ago}|\d{{1,4}}[{short_units}]\sago"
        rf"|\d{{1,4}}\s?(?:{unit})前|(?:vor|il y a|hace|há|in|dans|en|через)\s(?:(?:about|etwa|environ)\s)?{parts}"
        rf"|{day_count}|(?:{'|'.join(map(re.escape, named))})"
    )
    counted = (
        r"views?|visits?|visitors?|hits|comments?|likes?|reactions?|shares?|followers?|subscribers?|members?|users?"
        r"|guests?|readers?|viewers?|watchers?|watching|reading|people|online|downloads?|installs?|stars?|forks?|votes?"
        r"|upvotes?|points?|replies|reply|answers?|posts?|threads?|topics?|messages?|reviews?|ratings?|results?|plays?"
        r"|listens?|claps?|bookmarks?|purchases|sold|players?|sessions?|impressions?|clicks?|queries|requests|times|reads"
        r"|listeners?|spectators?"
        r"|aufrufen?|besuchern?|besucher|kommentaren?|kommentare?|mitglieder|lesern?|leser|nutzer|benutzer|gäste|zuschauer"
        r"|beiträge|antworten|stimmen|mal|vues?|visiteurs?|commentaires?|membres?|lecteurs?|utilisateurs?|connectés?"
        r"|lectures?|réponses|fois|visitas?|comentarios?|usuarios?|lectores?|lecturas?|miembros?|respuestas?|veces"
        r"|visualizaciones|visite|visitatori|commenti|utenti|lettori|letture|visualizzazioni|iscritti|leitores|usuários"
        r"|visualizações|comentários|lezers?|bezoekers?|reacties|gebruikers?|просмотр\w{0,3}|комментари\w{1,2}"
        r"|читател\w{1,3}|пользовател\w{1,3}|посетител\w{1,3}|гост\w{1,3}|ответ\w{0,3}|онлайн"
    )
    """Nouns that counters count."""
    # Bounded, because what may follow a number is looked for at each of its beginnings.
    number = r"\d{1,3}(?:[.,'’\u202f\u00a0]\d{3}){1,6}(?:[.,]\d{1,9})?|\d{1,20}(?:[.,]\d{1,9})?"
    quality = r"new|total|unique|registered|active|page|neue|aktive|nouveaux|nuevos"
    icon = "[👁👀👤👥❤♥♡💬🗨👍⭐★☆🔥🔁📥⬇▲]\ufe0f?"
    counter = (
        rf"(?:(?:{number})\s?[km]?|no|one)\s(?:(?:{quality})\s)?(?:{counted})\b"
        rf"|{icon}\s?(?:{number})\s?[km]?\b|(?:{number})\s?[km]?\s?{icon}"
    )
    dotted = r"\d{1,3}(?:\.\d{1,3}){3}"  # an address, of which a part looks like a date
    any_time = rf"(?P<relative>{relative})|(?!{dotted})(?P<date>{date})|(?P<clock>{clock})"
    expression = rf"(?:(?<!\w)(?<!\d\.)|(?<=\dT))(?:{any_time})(?!\w(?<![TtZz前天日]))"
    """A relative time, a date or a clock; every repetition is bounded, so that matching takes linear time."""
    labelled = rf"(?:{counted}|counter|count)(?::|\s=)\s?(?:{number})\b"  # "Views: 97"
    whole_counter = rf"(?<![\w.,])(?P<counter>{counter}|{labelled})"
    # What begins a counter begins no expression of time, and is found ten times as fast.
    counters, expressions = (re.compile(text, re.IGNORECASE) for text in (whole_counter, expression))
    # Several times as fast, and most pages name no time at all.
    may_match = compile_linear(
        f"(?i){relative}|{date}|{clock}|{counter}|{labelled}".replace(r"\w", r"[\wа-яё]")
        .replace(r"\u202f", "\u202f")
        .replace(r"\u00a0", "\u00a0")
    )
    amounts = re.compile(rf"(?P<amount>{amount})\s?(?:{'|'.join(f'({unit})' for unit in units)})", re.IGNORECASE)
    bare_number = re.compile(rf"(?:{number})\s?[km]?", re.IGNORECASE)
    label = re.compile(rf"(?:(?:{quality})\s)?(?:{counted}|{unit})", re.IGNORECASE)
    count = re.compile(rf"{number}|\b(?:no|one)\b", re.IGNORECASE)
    counted_days = re.compile(day_count)
    numbers, letters = re.compile(r"\d+"), re.compile(r"[^\W\d_]+")
    wide_space, wide_digit, wide = (re.compile(rf"(?![\x00-\x7f]){what}") for what in (r"\s", r"\d", r"[\s\d]"))
    plain_letters = str.maketrans({"ſ": "s", "ı": "i", "\u0307": None})
    """Letters that IGNORECASE takes for others and that lower() leaves (İ becomes i with a dot)."""


class Moment(IntEnum):
    """Kinds of expressions of time."""

    AGE = 0  # grows with time
    REST = 1  # shrinks with time
    DATE = 2
    CLOCK = 3
    COUNTER = 4


def names_a_time(text: str) -> bool:
    """Tells whether there may be an expression of time in a text."""
    return TimeGrammar.may_match.search(text.encode("utf-8", "replace")) is not None


def timed_block(text: str, at: float) -> tuple[str, tuple[int, ...]] | None:
    """A block without its expressions of time, and the moments they name as of a visit; None where there is none."""
    return next((timed for _, timed in timed_blocks((text,), at)), None)


def timed_blocks(texts: Sequence[str], at: float) -> Iterator[tuple[int, tuple[str, tuple[int, ...]] | None]]:
    """The blocks that may name a time, by index: each without its expressions of time, and the moments they name.

    None stands for one that has none after all.
    """
    for index, matches in _expressions(texts):
        if not matches:
            yield index, None
            continue
        text = texts[index]
        ends = [0, *(match.end() for match in matches)]
        starts = [*(match.start() for match in matches), len(text)]
        masks = [_mask(match) for match in matches]
        masked = "".join(text[end:start] + mask for end, start, mask in zip(ends, starts, [*masks, ""]))
        yield index, (masked, tuple(_moment(match, at) for match in matches))


def counted_blocks(texts: Sequence[str]) -> Iterator[tuple[int, tuple[str, tuple[int, ...]]]]:
    """Blocks that are a number beside a block that says what is counted, as in the cells of a table, by index.

    Each without its number, and with the moment that this is.
    """
    for index, text in enumerate(texts):
        if len(text) > LIMITS.max_count or not text[:1].isdigit() or TimeGrammar.bare_number.fullmatch(text) is None:
            continue
        beside = (*texts[max(0, index - 1) : index], *texts[index + 1 : index + 2])
        label = next((one for one in beside if len(one) <= LIMITS.max_label and _names_a_count(one)), None)
        if label is not None:
            yield index, (f"\0 {label}", (Moment.COUNTER | crc32(text.encode()) << 7,))


@lru_cache(4096)  # the labels of a site are few
def _names_a_count(text: str) -> bool:
    return TimeGrammar.label.fullmatch(text.rstrip(":")) is not None


def _mask(match: re.Match[str]) -> str:
    """Placeholder of an expression in the text that identifies its block: what is counted stays."""
    if match.lastgroup != "counter":
        return "\0"
    return TimeGrammar.count.sub("\0", match.group(), count=1).removesuffix("s")


def _expressions(texts: Sequence[str]) -> Iterator[tuple[int, list[re.Match[str]]]]:
    """The expressions of time of blocks, each tried where the quick pattern says that one may begin, and nowhere else.

    The quick pattern reads all blocks as one, since each call of it takes longer than to read a line.
    """
    plain: list[str] = []
    whole: list[bytes] = []
    starts = [0]
    for text in texts:
        plain.append(text if text.isascii() else _plain(text))
        whole.append(plain[-1].encode("utf-8", "replace") if len(text) <= LIMITS.max_block else b"")
        starts.append(starts[-1] + len(whole[-1]) + 1)
    data = b"\n".join(whole)
    index, found, misses, looked_at = -1, list[re.Match[str]](), 0, 0
    while (quick := TimeGrammar.may_match.search(data, looked_at)) is not None:
        place = quick.start()
        if place >= starts[index + 1]:
            if index >= 0:
                yield index, found
            index, found, misses = bisect_right(starts, place) - 1, [], 0
        first, wide = starts[index], not texts[index].isascii()
        begin = len(data[first:place].decode("utf-8", "replace")) if wide else place - first
        match = TimeGrammar.counters.match(texts[index], begin) or TimeGrammar.expressions.match(texts[index], begin)
        if match is not None:
            found.append(match)
            end = len(plain[index][: match.end()].encode("utf-8", "replace")) if wide else match.end()
            looked_at = first + end
            continue
        misses, looked_at = misses + 1, place + 1
        if misses >= LIMITS.max_misses:
            found, looked_at = [], starts[index + 1]
    if index >= 0:
        yield index, found


def _plain(text: str) -> str:
    """The text with the spaces and digits that the quick pattern, which reads bytes, knows, one for one."""
    if TimeGrammar.wide.search(text) is None:
        return text
    return TimeGrammar.wide_digit.sub(lambda match: str(int(match.group())), TimeGrammar.wide_space.sub(" ", text))


def consistent(before: Sequence[int], after: Sequence[int], elapsed: float) -> bool:
    """Tells whether the moments of a block moved as time did, or not at all."""
    return len(before) == len(after) and all(
        one == other or _moved_with_time(one, other, elapsed) for one, other in zip(before, after)
    )


# A moment is one number: its kind in 3 bits, the unit it is told in (3 bits), a flag, and its value.


def _moment(match: re.Match[str], at: float) -> int:
    text = match.group().lower().translate(TimeGrammar.plain_letters)
    if match.lastgroup == "relative":
        kind, unit, seconds = _age(text)
        return kind | unit << 3 | seconds << 7
    literal = crc32(text.encode())
    if match.lastgroup == "counter":
        return Moment.COUNTER | literal << 7
    if match.lastgroup == "date":
        return Moment.DATE | 3 << 3 | _is_near(text, at) << 6 | literal << 7
    parts = [int(part) for part in TimeGrammar.numbers.findall(text)[:3]]
    seconds = (parts[0] % 12 + 12 * ("p" in text) if "m" in text else parts[0]) * 3_600 + parts[1] * 60
    exact = len(parts) > 2
    offset = int(seconds + (parts[2] if exact else 0) - at) % DAY
    return Moment.CLOCK | (0 if exact else 1) << 3 | (literal << 17 | offset) << 7


def _age(text: str) -> tuple[Moment, int, int]:
    if text in TimeGrammar.named:
        return Moment.AGE, TimeGrammar.named[text] or 1, TimeGrammar.ages.get(text, 0)
    if TimeGrammar.counted_days.fullmatch(text):
        return Moment.AGE, 3, int(TimeGrammar.numbers.findall(text)[0]) * DAY
    rest = text.startswith(("in ", "dans ", "en ", "через")) or text.endswith(("left", "remaining", "to go", "now"))
    seconds, unit = 0, 0
    for match in TimeGrammar.amounts.finditer(text):
        unit = next(i for i in range(len(TimeGrammar.units)) if match.group(i + 2))
        amount = match["amount"]
        seconds += (int(amount) if amount.isdigit() else 1) * TimeGrammar.unit_seconds[unit]
    if not seconds and (number := TimeGrammar.numbers.search(text)):
        unit = max(TimeGrammar.short_units.find(text[number.end()]), 0)
        seconds = int(number.group()) * TimeGrammar.unit_seconds[unit]
    return (Moment.REST if rest else Moment.AGE), unit, seconds


def _is_near(text: str, at: float) -> bool:
    """Tells whether a date, in one of its readings, is that of the visit."""
    visit = datetime.fromtimestamp(at, UTC)
    numbers = [int(number) for number in TimeGrammar.numbers.findall(text)]
    month = next(
        (TimeGrammar.months[word] for word in TimeGrammar.letters.findall(text) if word in TimeGrammar.months), None
    )
    if month is not None:
        days = [number for number in numbers if number <= 31]
        years = [number for number in numbers if number > 31] or [visit.year]
        readings = [(years[0], month, day) for day in days]
    elif len(numbers) < 3:
        return False
    elif numbers[0] > 31:
        readings = [(numbers[0], numbers[1], numbers[2])]
    else:
        year = numbers[2] + (2_000 if numbers[2] < 100 else 0)
        readings = [(year, numbers[1], numbers[0]), (year, numbers[0], numbers[1])]
    return any(_days_off(*reading, at) <= LIMITS.near_days for reading in readings)


def _days_off(year: int, month: int, day: int, at: float) -> float:
    try:
        noon = datetime.combine(date(year, month, day), datetime.min.time(), UTC).timestamp() + DAY / 2
    except ValueError:
        return float("inf")
    return abs(noon - at) / DAY


def _moved_with_time(before: int, after: int, elapsed: float) -> bool:
    kind = before & 7
    if kind != after & 7 or kind == Moment.COUNTER:
        return False
    unit = TimeGrammar.unit_seconds[before >> 3 & 7]
    if kind == Moment.CLOCK:
        if before >> 24 == after >> 24:
            return True  # the same words: an hour that does not move
        drift = abs((before >> 7 & 0x1FFFF) - (after >> 7 & 0x1FFFF))
        return min(drift, DAY - drift) <= unit + LIMITS.clock_slack and elapsed >= LIMITS.min_share * unit
    if kind == Moment.DATE:
        both_near = before >> 6 & after >> 6 & 1
        return before >> 7 == after >> 7 or (both_near == 1 and elapsed >= LIMITS.min_share * DAY)
    other = TimeGrammar.unit_seconds[after >> 3 & 7]
    if elapsed < LIMITS.min_share * min(unit, other):
        return False
    moved = elapsed if kind == Moment.AGE else -elapsed
    expected, shown = (before >> 7) + moved, after >> 7
    return expected - other <= shown <= expected + max(unit, other)


# -- blocks of which only the times and counters differ --------------------------------------------------------------

_KEY = (1 << 48) - 1


def key_of(number: int) -> int:
    """A block without its times and counters, as it is remembered."""
    return number >> 8 & _KEY


def keys_of(varying: Sequence[int]) -> set[int]:
    """All blocks that differed lately."""
    return {one & _KEY for one in varying}


def known_keys(varying: Sequence[int]) -> set[int]:
    """The blocks that differed so often that they are known to vary."""
    return {one & _KEY for one in varying if one >> 48 & 15 >= LIMITS.enough}


def canonical(digest: Digest, keys: Container[int]) -> tuple[int, ...]:
    """The blocks of a version, where those that vary count without their times and counters."""
    found = [(index, number) for index, number, _ in digest.times if key_of(number) in keys]
    if not found:
        return digest.blocks
    blocks = list(digest.blocks)
    for index, number in found:
        blocks[index] = number
    return tuple(blocks)


def timely_blocks(known: Digest, seen: Digest, elapsed: float) -> tuple[int, ...]:
    """The blocks seen, where those whose expressions of time only moved with time count as those known."""
    if not known.times or not seen.times:
        return seen.blocks
    blocks = list(seen.blocks)
    for (before, old), (index, moments), _ in _pairs(known, seen):
        if consistent(old, moments, elapsed):
            blocks[index] = known.blocks[before]
    return tuple(blocks)


def _pairs(known: Digest, seen: Digest) -> list[tuple[tuple[int, tuple[int, ...]], tuple[int, tuple[int, ...]], int]]:
    """Blocks of both versions that are the same but for their times and counters, in order."""
    waiting: dict[int, deque[tuple[int, tuple[int, ...]]]] = {}
    for index, number, moments in known.times:
        waiting.setdefault(number, deque()).append((index, moments))
    found = []
    for index, number, moments in seen.times:
        if queue := waiting.get(number):
            found.append((queue.popleft(), (index, moments), number))
    return found


def learnt_counts(varying: Sequence[int], known: Digest, seen: Digest, elapsed: float) -> tuple[int, ...]:
    """Counts to remember after a visit, those that differ most often first."""
    if not varying and not (known.times and seen.times):
        return ()
    differing = {
        key_of(number)
        for (_, old), (_, moments), number in _pairs(known, seen)
        if len(old) == len(moments) and not consistent(old, moments, elapsed)
    }
    counts, rests = {}, {}
    for one in varying:
        key = one & _KEY
        counts[key], rests[key] = one >> 48 & 15, (one >> 52 & 255) + 1
    for key in differing:
        counts[key], rests[key] = min(counts.get(key, 0) + 1, 15), 0
    for before, after in _edited(known, seen):
        if (count := counts.get(before, 0)) > counts.get(after, 0):
            counts[after], rests[after] = count, 0
    kept = sorted((key for key in counts if rests[key] <= LIMITS.max_rest), key=lambda key: (-counts[key], key))
    return tuple(key | counts[key] << 48 | rests[key] << 52 for key in kept[: LIMITS.max_varying])


def _edited(known: Digest, seen: Digest) -> Iterator[tuple[int, int]]:
    """Blocks whose words were edited beside their times and counters: what is known of these stays."""
    old, new = {number for _, number, _ in known.times}, {number for _, number, _ in seen.times}
    if old == new:
        return
    gone = [(tuple(one & 7 for one in moments), number) for _, number, moments in known.times if number not in new]
    for _, number, moments in seen.times:
        kinds = tuple(one & 7 for one in moments)
        if number not in old and (before := next((one for one in gone if one[0] == kinds), None)) is not None:
            gone.remove(before)
            yield key_of(before[1]), key_of(number)
