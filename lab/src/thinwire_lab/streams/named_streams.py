"""Lines of orders as the TPC-H benchmark fills its largest table, written as its files are (`lineitem.tbl`).

Columns follow section 4.2.3 of the specification: keys that belong together, prices that follow from the part, dates
that follow from the order's, and comments cut out of one long text made by its grammar. Chance and the text are our
own, so rows look like those of `dbgen` and are not the same.

>>> next(lineitems()).count(b"|"), 100 < sum(map(len, lineitems(500))) / 500 < 140
(16, True)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import date, timedelta
from random import Random

ROWS = 1_000_000
PARTS, SUPPLIERS = 200_000, 10_000
"""at scale factor 1"""
TEXT = 100_000
"""bytes of the text that comments are cut out of"""
_FIRST, _ORDER_DAYS = date(1992, 1, 1), 2405
_TODAY = date(1995, 6, 17)
_INSTRUCTIONS = ("DELIVER IN PERSON", "COLLECT COD", "NONE", "TAKE BACK RETURN")
_MODES = ("REG AIR", "AIR", "RAIL", "SHIP", "TRUCK", "MAIL", "FOB")
_GRAMMAR = {
    "adjective": """special pending unusual express furious sly careful blithe quick fluffy slow quiet ruthless thin
        close dogged daring brave stealthy permanent enticing idle busy regular final ironic even bold silent""",
    "noun": """foxes ideas theodolites instructions dependencies excuses platelets asymptotes courts dolphins frets
        multipliers sauternes warthogs dinos attainments somas braids frays warhorses dugouts notornis epitaphs pearls
        tithes waters orbits gifts sheaves depths sentiments decoys realms pains grouches escapades deposits requests
        accounts packages""",
    "verb": """sleep wake are cajole haggle nag use boost affix detect integrate maintain nod was lose sublate solve
        thrash promise engage hinder print x-ray breach eat grow impress mold poach serve run dazzle snooze doze
        unwind kindle""",
    "adverb": """sometimes always never furiously slyly carefully blithely quickly fluffily slowly quietly ruthlessly
        thinly closely doggedly daringly bravely stealthily permanently enticingly idly busily regularly finally""",
    "preposition": "about above across after against along among around at before behind beneath beside between by",
}
_ENDS = (".", ";", ":", "?", "!", "--")


def lineitems(rows: int = ROWS) -> Iterator[bytes]:
    """The rows, order by order; the same every time."""
    chance, text = Random(1), _text(Random(2))
    order = left = 0
    for _ in range(rows):
        if not left:
            order, left = order + 1, chance.randrange(1, 8)
            lines, ordered = left, _FIRST + timedelta(chance.randrange(_ORDER_DAYS))
        left -= 1
        yield _row(chance, text, _key(order), lines - left, ordered)


def _key(order: int) -> int:
    """Of every 32 keys the first eight are used."""
    return (order - 1) // 8 * 32 + (order - 1) % 8 + 1


def _row(chance: Random, text: str, order: int, line: int, ordered: date) -> bytes:
    part, quantity = chance.randrange(1, PARTS + 1), chance.randrange(1, 51)
    price = quantity * (90_000 + part // 10 % 20_001 + 100 * (part % 1_000))
    shipped, committed = (ordered + timedelta(chance.randrange(*days)) for days in ((1, 122), (30, 91)))
    received = shipped + timedelta(chance.randrange(1, 31))
    returned = chance.choice("RA") if received <= _TODAY else "N"
    numbers = f"{order}|{part}|{_supplier(chance, part)}|{line}|{quantity}|{price / 100:.2f}"
    rates = f"{chance.randrange(11) / 100:.2f}|{chance.randrange(9) / 100:.2f}|{returned}"
    dates = f"{'O' if shipped > _TODAY else 'F'}|{shipped}|{committed}|{received}"
    return f"{numbers}|{rates}|{dates}|{_words(chance, text)}|".encode()


def _supplier(chance: Random, part: int) -> int:
    """One of the four that sell a part."""
    return (part + chance.randrange(4) * (SUPPLIERS // 4 + (part - 1) // SUPPLIERS)) % SUPPLIERS + 1


def _words(chance: Random, text: str) -> str:
    length = chance.randrange(10, 44)
    at = chance.randrange(len(text) - length)
    return f"{chance.choice(_INSTRUCTIONS)}|{chance.choice(_MODES)}|{text[at : at + length]}"


def _text(chance: Random) -> str:
    words = {kind: text.split() for kind, text in _GRAMMAR.items()}
    sentences, size = [], 0
    while size < TEXT:
        sentences.append(_sentence(chance, words))
        size += len(sentences[-1]) + 1
    return " ".join(sentences)


def _sentence(chance: Random, words: Mapping[str, Sequence[str]]) -> str:
    said = [chance.choice(words[kind]) for kind in ("adjective", "noun", "verb", "adverb")]
    if chance.random() < 0.5:
        said += [chance.choice(words["preposition"]), "the", chance.choice(words["noun"])]
    return " ".join(said[chance.randrange(2) :]) + chance.choice(_ENDS)
