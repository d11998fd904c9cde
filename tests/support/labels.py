"""Values that a reader takes from labels of built hierarchies, without any code of the project."""

from __future__ import annotations

import re
from datetime import date
from fractions import Fraction
from ipaddress import IPv4Address, ip_network

ROOT = "*"


def in_interval(value: float, label: str) -> bool:
    number = Fraction(repr(float(value)))
    if label == ROOT:
        return True
    if found := re.fullmatch(r"\[(\S+), (\S+)([)\]])", label):
        low, high = Fraction(found[1]), Fraction(found[2])
        return low <= number < high or (found[3] == "]" and number == high)
    if found := re.fullmatch(r">= (\S+)|(-?\d+)\+", label):
        return number >= Fraction(found[1] or found[2])
    ends = [Fraction(end) for end in (label.split(" to ") if " to " in label else re.split(r"(?<=\d)-", label))]
    return ends[0] <= number <= ends[-1]


def is_masked(value: str, label: str) -> bool:
    kept = label.rstrip("*")
    return value.startswith(kept) and (len(kept) < len(label) or value == label)


def in_period(value: str, label: str) -> bool:
    day = date.fromisoformat(value)
    if found := re.fullmatch(r"(\d{4})-Q(\d)", label):
        return day.year == int(found[1]) and int(found[2]) == {1: 1, 2: 1, 3: 1, 4: 2, 5: 2, 6: 2}.get(
            day.month, 3 if day.month < 10 else 4
        )
    if found := re.fullmatch(r"(\d{4})-W(\d{2}|\*)", label):
        year, week, _ = day.isocalendar()
        return year == int(found[1]) and found[2] in ("*", f"{week:02}")
    if found := re.fullmatch(r"(\d{4})s", label):
        return day.year // 10 * 10 == int(found[1])
    return label == ROOT or day.isoformat().startswith(label)


def in_time(value: str, label: str) -> bool:
    first, _, last = label.partition("-")
    return label == ROOT or first <= value[:5] <= (last or first)


def is_on(value: str, label: str) -> bool:
    day = date.fromisoformat(value)
    return label in (ROOT, f"{day:%A}", "weekend" if day.isoweekday() > 5 else "weekday")


def in_cell(value: str, label: str) -> bool:
    return label == ROOT or value.startswith(label)


def in_hexagon(value: str, label: str) -> bool:
    """By the digits of H3 indices: 4 bits of resolution, 7 of the base cell, 3 of each digit."""
    if label == ROOT:
        return True
    bits, of_label = (f"{int(text, 16):064b}" for text in (value, label))
    end = 19 + 3 * int(of_label[8:12], 2)
    return int(bits[8:12], 2) >= int(of_label[8:12], 2) and bits[12:end] == of_label[12:end]


def in_network(value: str, label: str) -> bool:
    return label == ROOT or IPv4Address(value) in ip_network(label)
