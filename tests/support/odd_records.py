"""Records of JSON and lines of CSV for a fuzz: well-formed ones, odd ones, and both with bytes of them changed."""

from __future__ import annotations

import json
import random
from collections.abc import Callable

_NUMBERS = (
    *("0", "-0", "-0.0", "7", "-129", "2147483648", "9223372036854775807", "18446744073709551616", "1.005"),
    *("1e2", "1e400", "-1e400", "1e-400", "1e99999999999999999999", "-1e-99999999999999999999", "1E+999999999"),
    *("1" * 41, "1" * 309, "1" * 5000, "-" + "9" * 4301, "0." + "3" * 5000, "1.00000000000000000001"),
    *("1e+", "01", ".5"),
)
_TEXTS = (
    *("", " ", "ann", "é", "東京", "true", "NaN", "-Infinity", "inf", "1_000", "12.7", "1d", "٣", "'", "\x00"),
    *("\ufeff", "2024-02-29", "2023-02-29 10:00", "0000-00-00", "9999-12-31 23:59:59.999999", "=cmd", "10.0.3.7"),
    *("a" * 3000, "0" * 5000 + "7", "1" * 5000, "+" * 40, "1e99999999999999999999"),
    *('"', '""', ",", "\n", "\r", "\r\n", "\u2028"),
)
_ESCAPED = (r"\ud800", r"\udc00x", r"\ud83d\ude00", r"\ud800\ud800\udc00", r"\u0000", r"\\ud800", r"\x", r"\ufeff")
_CONSTANTS = ("true", "false", "null", "NaN", "Infinity", "nul", "[]", "{}")
_PREFIXES = (b"\xef\xbb\xbf", b"\xef\xbb\xbf\xef\xbb\xbf", b"\xff\xfe")
_BYTES = (
    b'"',
    b"\\",
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b"\n",
    b"\r",
    b"\x00",
    b"\xff",
    _PREFIXES[0],
    b"\xed\xa0\x80",
)


def json_record(chance: random.Random) -> bytes | None:
    """Return a record with members a and b, or what is left of one."""
    return _damaged(chance, lambda: _object(chance, chance.randrange(4)).encode())


def csv_line(chance: random.Random, width: int, quote: str = '"', delimiter: str = ",") -> bytes | None:
    """Return a line of some fields, or what is left of one."""

    def field() -> str:
        text = chance.choice(_TEXTS + _NUMBERS) if chance.random() < 0.5 else str(chance.randrange(-200, 200))
        if chance.random() < 0.8 and not any(special in text for special in (quote, delimiter, "\n", "\r")):
            return text
        return quote + text.replace(quote, quote * 2) + quote

    count = width if chance.random() < 0.9 else chance.randrange(width + 3)
    end = chance.choice(("", "", "", "\r", "\n", "\r\n"))
    return _damaged(chance, lambda: (delimiter.join(field() for _ in range(count)) + end).encode())


def _object(chance: random.Random, levels: int) -> str:
    members = [(name, _value(chance, levels)) for name in chance.choices("aabbc", k=chance.randrange(4))]
    return "{" + ", ".join(f'"{name}": {value}' for name, value in members) + "}"


def _value(chance: random.Random, levels: int) -> str:
    if levels and chance.random() < 0.4:
        if chance.random() < 0.5:
            return _object(chance, levels - 1)
        return "[" + ",".join(_value(chance, levels - 1) for _ in range(chance.randrange(4))) + "]"
    kind = chance.randrange(40)
    if kind < 14:
        return chance.choice(_NUMBERS)
    if kind < 18:
        return repr(chance.uniform(-1e6, 1e6))
    if kind < 30:
        return json.dumps(chance.choice(_TEXTS + _NUMBERS), ensure_ascii=chance.random() < 0.5)
    if kind < 34:
        return f'"{chance.choice(_ESCAPED)}"'
    if kind < 39:
        return chance.choice(_CONSTANTS)
    deep = chance.choice((10, 490, 498, 499, 500, 501, 600, 990, 1023, 1025, 3000))
    return "[" * deep + chance.choice(("", "1.5", r'"\ud800"')) + "]" * (deep if chance.random() < 0.9 else 1)


def _damaged(chance: random.Random, made: Callable[[], bytes]) -> bytes | None:
    """Return the record unchanged in two of three cases, else with some of its bytes changed."""
    fate = chance.random()
    if fate < 0.66:
        return made()
    if fate < 0.68:
        return chance.choice((None, b"", b" ", b"\r", b"null", *_PREFIXES))
    if fate < 0.74:
        return chance.choice(_PREFIXES) + made()
    if fate < 0.8:
        return made() + chance.choice((b" x", b"}", b"\x00", b"[" * 600))
    if fate < 0.83:
        return chance.randbytes(chance.randrange(20))
    record = bytearray(made())
    for _ in range(chance.randrange(1, 4)):
        start = chance.randrange(len(record) + 1)
        stop = start + chance.choice((0, 0, 1, 1, chance.randrange(10)))
        record[start:stop] = chance.choice((*_BYTES, b"", b"", record[start:stop] * 2, chance.randbytes(1)))
    return bytes(record)
