"""Noise in time: what varies from visit to visit is learnt word by word, and everything else still counts."""

import random
from dataclasses import dataclass

import pytest

from crawld.crawl.judge import Judgement, is_pair, judge, learn_from_pair, read, wants_second_look
from crawld.model.crawl import Memory, Verdict
from crawld.model.fetched import Fetched
from crawld.read.change.comparison import compared_blocks
from crawld.read.change.words import LIMITS as WORDS_LIMITS
from crawld.read.change.words import spans_of, words_of
from crawld.read.page.rules import DigestRule

HOUR = 3_600.0
RULE = DigestRule()
BEFORE = ("The harbour of the town", "Ships come in at night and leave before the sun is up.", "Nobody counts them.")
AFTER = ("Fish is sold on the quay.", "The market closes when the last boat has gone.", "Come early.")


@dataclass(slots=True)
class Visitor:
    """Visits a page an hour apart, as the daemon does; `pair` is what a second fetch at once would bring."""

    memory: Memory | None = None
    visits: int = 0
    looks: int = 0
    body: bytes | None = None

    def visit(self, *blocks: str, pair: tuple[str, ...] | None = None, seconds: float = 1.0) -> bool:
        """Whether the page counted as changed."""
        at = self.visits * HOUR
        self.visits += 1
        outcome = _page(*blocks)
        reading = read(outcome, self.memory, RULE, at)
        judgement = judge(1, at, outcome, self.memory, RULE, reading)
        if wants_second_look(judgement):
            self.looks += 1
            if is_pair(seconds, HOUR):
                judgement = learn_from_pair(
                    judgement, reading, read(_page(*(pair or blocks)), None, RULE, at + seconds)
                )
        return self._take(judgement)

    def _take(self, judgement: Judgement) -> bool:
        self.memory = judgement.memory or self.memory
        self.body = judgement.body
        return judgement.verdict is Verdict.CHANGED


def _page(*blocks: str) -> Fetched:
    inner = "".join(f"<p>{block}</p>" for block in (*BEFORE, *blocks, *AFTER))
    return Fetched("http://x/", 200, inner.encode(), {"content-type": "text/html"})


def learnt(*spellings: str) -> Visitor:
    """A visitor that has seen a page with each of these in turn."""
    visitor = Visitor()
    for spelling in spellings:
        visitor.visit(spelling)
    return visitor


SLOW = {
    "age": [f"Posted {n} hours ago by Alice for € 5.00" for n in (7, 3, 9, 1, 20, 4)],
    "counter": [f"Seen by 1,{n} readers, says Alice for € 5.00" for n in range(200, 206)],
    "counter behind": [f"Views: {n} says Alice for € 5.00" for n in range(98, 104)],
    "clock": [f"It is {n}:07 says Alice for € 5.00" for n in (10, 22, 9, 17, 3, 12)],
    "date": [f"Today: Monday, {n} March 2011 says Alice for € 5.00" for n in range(3, 9)],
    "comments": [
        f"{n} says Alice for € 5.00" for n in ("No comments", "1 comment", *(f"{n} comments" for n in range(2, 6)))
    ],
}


@pytest.mark.parametrize("kind", SLOW)
def test_slow_noise_is_learnt_without_a_second_fetch(kind: str) -> None:
    """Times and counters that differ at every visit are noise soon, and the copy is renewed all the same."""
    visitor = learnt(*SLOW[kind][:-1])
    assert not visitor.visit(SLOW[kind][-1])
    assert visitor.body is not None
    assert visitor.looks == 0


@pytest.mark.parametrize("kind", SLOW)
@pytest.mark.parametrize(
    ("old", "new"),
    [("Alice", "Bob"), ("Alice", "Alice Smith"), ("€ 5.00", "€ 4.50"), ("says ", ""), ("by ", ""), ("€", "about €")],
)
def test_an_edit_inside_a_noisy_block_is_seen(kind: str, old: str, new: str) -> None:
    """A word or a price that is edited in the block that holds the noise counts; the noise then still does not."""
    visitor = learnt(*SLOW[kind][:-1])
    edited = [text.replace(old, new) for text in SLOW[kind]]
    if edited == SLOW[kind]:
        return
    assert visitor.visit(edited[-1])
    assert not visitor.visit(edited[0])
    assert not visitor.visit(edited[1])


@pytest.mark.parametrize("kind", SLOW)
def test_blocks_beside_a_noisy_block_are_seen(kind: str) -> None:
    """A block put in before or after the noise, and one taken away again, are changes."""
    spellings = SLOW[kind]
    visitor = learnt(*spellings[:-1])
    assert visitor.visit("A block put in.", spellings[-1])
    assert visitor.visit("A block put in.", spellings[0], "Another block put in.")
    assert visitor.visit(spellings[1], "Another block put in.")
    assert visitor.visit(spellings[2])
    assert not visitor.visit(spellings[3])


def test_ages_that_move_with_time_are_never_a_change() -> None:
    """What was 3 hours ago is 4 hours ago an hour later, and that is nothing new even at the first time."""
    visitor = Visitor()
    changes = [visitor.visit(f"Posted {n} hours ago.") for n in range(3, 20)]
    assert changes == [False] * 17


def test_an_edited_age_counts() -> None:
    """An age that did not move as time did is an edit."""
    visitor = learnt("Posted 3 hours ago.")
    assert visitor.visit("Posted 9 hours ago.")


def test_a_single_edit_counts_at_once() -> None:
    """One digit, one date or one price of a quiet page is a change at the next visit."""
    for old, new in [
        ("17 views", "18 views"),
        ("12 May 2001", "13 May 2001"),
        ("€ 5", "€ 6"),
        ("at 10:00", "at 11:00"),
    ]:
        visitor = learnt(old, old)
        assert visitor.visit(new)


LINKS = [
    f"Read on about {a} and the {b}" for a in ("boats", "nets", "fish", "salt") for b in ("sea", "old wind", "ice")
]


def links(rng: random.Random) -> tuple[str, ...]:
    """Four of the links, by chance."""
    return tuple(rng.sample(LINKS, 4))


def test_random_links_are_learnt_by_two_pairs() -> None:
    """Links drawn anew at every fetch are noise once two pairs of fetches differed; an edit above them is seen."""
    rng = random.Random(3)
    visitor = Visitor()
    for _ in range(20):
        visitor.visit("Related", *links(rng), pair=("Related", *links(rng)))
    assert [visitor.visit("Related", *links(rng), pair=("Related", *links(rng))) for _ in range(20)] == [False] * 20
    assert 2 <= visitor.looks <= 6
    assert visitor.visit("Related to this", *links(rng))
    assert not visitor.visit("Related to this", *links(rng))
    assert visitor.visit("Related to this", *links(rng), "Put in below the links.")


def test_headlines_are_no_noise() -> None:
    """Words that differ at every visit, but not between two fetches at once, go on counting."""
    rng = random.Random(3)
    visitor = Visitor()
    assert [visitor.visit("News", *links(rng)) for _ in range(40)] == [False] + [True] * 39


def test_one_pair_alone_teaches_nothing() -> None:
    """A real change that fell between two fetches is not taken for noise."""
    visitor = Visitor()
    for number in range(40):
        pair = (f"Edition {number}a of the paper",) if number == 3 else None
        assert visitor.visit(f"Edition {number} of the paper", pair=pair) == (number > 0)


def test_late_second_fetches_teach_nothing() -> None:
    """Where a Crawl-delay holds up the second fetch until the page may have changed, the two are no pair."""
    visitor = Visitor()
    for number in range(40):
        changed = visitor.visit(f"The {'very ' * number} paper", pair=(f"The {'fine ' * number}paper",), seconds=600.0)
        assert changed == (number > 0)
    assert visitor.looks > 0


def test_a_crawl_delay_makes_no_pair_of_two_visits() -> None:
    """Two fetches are a pair by their distance, and on a host with a Crawl-delay only against the time of a visit."""
    assert is_pair(1.5, 2.0)
    assert not is_pair(1.5, 2.0, crawl_delay=True)
    assert is_pair(10.0, HOUR, crawl_delay=True)
    assert not is_pair(10.0, 20.0)


def test_prices_and_versions_are_no_noise() -> None:
    """A price, or the number of a version, that differs at every visit is a change at every visit."""
    for spell in ("now for € {}.50", "Release {} is out", "only {},99 EUR today"):
        visitor = Visitor()
        assert [visitor.visit(spell.format(n)) for n in range(10, 50)] == [False] + [True] * 39


def test_what_stops_varying_counts_again() -> None:
    """Links that have stood still for a while are content: the next difference is a change."""
    rng = random.Random(5)
    visitor = Visitor()
    for _ in range(12):
        visitor.visit("Related", *links(rng), pair=("Related", *links(rng)))
    assert not visitor.visit("Related", *LINKS[:4])
    for _ in range(6):
        assert not visitor.visit("Related", *LINKS[:4])
    assert visitor.visit("Related", *LINKS[1:5])


def test_a_list_in_any_order_still_shows_its_edits() -> None:
    """A list that is shuffled at every fetch is noise; a word edited, added or lost in one of its items is not."""
    rng = random.Random(5)
    items = list(LINKS[:6])
    visitor = Visitor()

    def shuffled() -> tuple[str, ...]:
        return ("All of them", *rng.sample(items, len(items)))

    for _ in range(16):
        visitor.visit(*shuffled(), pair=shuffled())
    assert [visitor.visit(*shuffled(), pair=shuffled()) for _ in range(10)] == [False] * 10
    items[2] = items[2].replace("about", "of")
    assert visitor.visit(*shuffled())
    assert not visitor.visit(*shuffled())
    items[3] += " again"
    assert visitor.visit(*shuffled())
    assert not visitor.visit(*shuffled())


def test_what_is_compared_can_be_shown() -> None:
    """The text that counts has an ellipsis in place of each volatile word, and is whole otherwise."""
    visitor = learnt(*SLOW["counter behind"])
    assert visitor.memory is not None
    reading = read(_page("Views: 99 says Alice for € 5.00"), None, RULE, 0.0)
    shown = compared_blocks(reading, visitor.memory)
    assert shown == [*BEFORE, "Views: … says Alice for € 5.00", *AFTER]
    rng, visitor = random.Random(3), Visitor()
    for _ in range(20):
        last = ("Related", *links(rng))
        visitor.visit(*last, pair=("Related", *links(rng)))
    assert visitor.memory is not None
    shown = compared_blocks(read(_page(*last), None, RULE, 0.0), visitor.memory)
    assert "Related" in shown
    assert not set(shown) & set(LINKS)


def test_what_is_remembered_is_bounded() -> None:
    """However much of a page varies, a bounded number of words is remembered of it."""
    rng = random.Random(1)
    visitor = Visitor()
    for _ in range(8):
        visitor.visit(*(f"{rng.random()} steady words {n} {'and more ' * 20}" for n in range(400)))
    assert visitor.memory is not None
    words = sum(len(block) for place in visitor.memory.places for block in place.blocks)
    assert len(visitor.memory.places) <= 256
    assert words <= 2_000


@pytest.mark.parametrize("text", ["111," * 7_400, "1" * 29_900, "1" * 29_900 + " views", "1.11" * 7_000])
def test_a_block_that_is_one_long_number_is_read(text: str) -> None:
    """Digits without end are a bounded number of words."""
    assert len(words_of(text)) <= WORDS_LIMITS.max_words + 1
    assert len(spans_of(text)) <= WORDS_LIMITS.max_words + 1


def words(rng: random.Random) -> str:
    """A paragraph of random words."""
    return " ".join(rng.choice(LINKS).split()[3] + str(rng.random())[2:5] for _ in range(12))


@pytest.mark.parametrize("stay", range(2, 8))
def test_noise_that_ends_hides_no_edit(stay: int) -> None:
    """A box of random words that becomes a text is seen at every edit from then on, and at no other visit."""
    rng = random.Random(stay)
    visitor = Visitor()
    for _ in range(20):
        visitor.visit(words(rng), pair=(words(rng),))
    box = words(rng)
    visitor.visit(box)
    for _ in range(8):
        assert [visitor.visit(box) for _ in range(stay - 1)] == [False] * (stay - 1)
        box = words(rng)
        assert visitor.visit(box)


def test_noise_that_rests_is_confirmed_by_a_pair() -> None:
    """A place that rested and differs again is noise still where a pair of fetches differs."""
    rng = random.Random(2)
    visitor = Visitor()
    for _ in range(20):
        visitor.visit(words(rng), pair=(words(rng),))
    for _ in range(6):
        box, looks = words(rng), visitor.looks
        assert not visitor.visit(box, pair=(words(rng),))
        assert not visitor.visit(box)
        assert visitor.looks <= looks + 1


def test_explained_differences_are_checked_now_and_then() -> None:
    """One explained difference in sixteen is checked by a pair; one that agrees takes the proof away."""
    rng = random.Random(4)
    visitor = Visitor()
    for _ in range(12):
        visitor.visit(words(rng), pair=(words(rng),))
    before = visitor.looks
    assert not any(visitor.visit(words(rng), pair=(words(rng),)) for _ in range(64))
    assert 3 <= visitor.looks - before <= 5
    assert any(visitor.visit(words(rng)) for _ in range(17))
    assert all(visitor.visit(words(rng)) for _ in range(10))


def test_variants_of_different_length_are_known_and_hide_nothing() -> None:
    """A part drawn from two variants is noise, a third variant and a block beside them are edits."""
    rng = random.Random(6)
    one, other = ("A short offer.",), ("A long offer.", "It has two parts.", "And a third part.")
    visitor = Visitor()
    for _ in range(24):
        visitor.visit(*rng.choice((one, other)), pair=rng.choice((one, other)))
    assert not any(visitor.visit(*rng.choice((one, other)), pair=one) for _ in range(12))
    assert visitor.visit("A paragraph of the page.", *one)
    assert not any(visitor.visit("A paragraph of the page.", *rng.choice((one, other))) for _ in range(6))
    assert visitor.visit("A paragraph of the page.", "A short offer, and edited.")


def test_counters_stay_known_beside_an_edit() -> None:
    """A clock and a number of readers that were learnt do not count when headlines beside them change."""
    visitor, changed = Visitor(), []
    for number in range(30):
        news = [f"Headline {line} of the day" for line in range(number // 3, number // 3 + 4)]
        changed.append(visitor.visit(f"It is {number % 24:02}:07", f"{200 + 7 * number} readers online", *news))
    assert changed[6:] == [number % 3 == 0 for number in range(6, 30)]


def test_a_count_of_days_moves_with_time() -> None:
    """Day 12 is day 13 a day later and nothing new; day 20 is."""
    visitor = Visitor()
    assert not any(visitor.visit(f"Day {12 + number // 24} of the journey") for number in range(80))
    assert visitor.visit("Day 20 of the journey")


def test_spacing_inside_a_line_of_code_is_seen_in_a_noisy_place() -> None:
    """Where the words are the same and the block is not, spacing that counts has changed."""
    visitor = Visitor()
    code = "<pre>a = {}\nb  =  2</pre>"
    visitor.visit(code.format(1))
    visitor.visit(code.format(2))
    assert visitor.visit(code.format(2).replace("b  =", "b   ="))


def test_a_paragraph_put_in_beside_a_list_of_any_length_hides_no_later_edit() -> None:
    """What stays at the end of such a list is no part of it after two visits, and is edited before all eyes."""
    visitor, rng = Visitor(), random.Random(3)
    words = [f"{one} {other}" for one in ("red", "blue", "green", "grey") for other in ("ship", "mast", "sail", "rope")]

    def links() -> list[str]:
        return rng.sample(words, rng.randrange(2, 6))

    for _ in range(20):
        visitor.visit(*links(), pair=tuple(links()))
    for _ in range(4):
        visitor.visit(*links(), "The ferry leaves at noon", pair=(*links(), "The ferry leaves at noon"))
    assert visitor.visit(*links(), "The ferry leaves at dawn", pair=(*links(), "The ferry leaves at dawn"))


def test_prices_of_random_goods_are_noise_and_an_edited_price_beside_them_is_not() -> None:
    """Only pairs of fetches that differ in a price itself say that it varies."""
    visitor, rng = Visitor(), random.Random(4)

    def goods() -> tuple[str, ...]:
        return tuple(f"A {rng.choice(('rope', 'sail', 'mast'))} for € {rng.randrange(10, 99)}.50" for _ in range(3))

    changed = [visitor.visit("Rooms from € 70", *goods(), pair=("Rooms from € 70", *goods())) for _ in range(30)]
    assert not any(changed[12:])
    for price in range(80, 90):
        room = f"Rooms from € {price}"
        assert visitor.visit(room, *goods(), pair=(room, *goods()))


@pytest.mark.parametrize(
    ("first", "second"), [("👁", ""), ("♥", "k"), ("Downloads</p><p>", ""), ("Sale ends in</p><p>", "</p><p>days")]
)
def test_a_counter_is_known_by_an_icon_or_by_the_block_beside_it(first: str, second: str) -> None:
    """As one is by the word beside it: after two differences, though pairs of fetches agree."""
    visitor = learnt(*(f"{first} {count}{second}" for count in range(7, 10)))
    assert not any(visitor.visit(f"{first} {count}{second}") for count in range(10, 30))
    assert visitor.visit(f"{first} some{second}")


def test_the_day_of_a_moment_varies_with_its_clock() -> None:
    """In 2026-11-16T12:00:00Z beside a token, which no comparison of times can explain, the date is noise at once."""
    visitor = Visitor()
    changed = []
    for visit in range(60):
        moment = f"{16 + visit // 24}T{visit % 24:02}:07:00Z"
        first, second = (f"Build {visit * 7919 + 1:x}{one} at 2026-11-{moment}" for one in "ab")
        changed.append(visitor.visit(first, pair=(second,)))
    assert not any(changed[12:])
