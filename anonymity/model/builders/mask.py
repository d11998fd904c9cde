"""Hierarchies of texts by masked suffix, such as the ZIP codes of (k, epsilon)-anonymity, Table I."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise, product
from math import log2
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import BeforeValidator, ValidationInfo

from crenel.anonymity.model.builders.builder import MOST_LEAVES, ROOT, Builder, BuilderError, Finder, table_finder
from crenel.anonymity.model.errors import read_text
from crenel.anonymity.model.fields import Items, Natural, Positive, about, folder_of, setting
from crenel.anonymity.model.hierarchy import HierarchyError

DIGITS = "0123456789"

_STAR = "*"


def _lines(value: object, info: ValidationInfo) -> object:
    """Return the lines of a file, if ``value`` is a path, relative to the folder of the settings."""
    if not isinstance(value, str | Path) or not value:
        return value
    return [line for line in read_text(folder_of(info) / value, HierarchyError).splitlines() if line]


@setting
class Mask(Builder):
    """A hierarchy of texts by masked suffix: ``23701``, ``2370*``, ``237**`` ((k, epsilon)-anonymity, Table I).

    The known texts are ``values``, or all texts of ``length`` characters of an ``alphabet``; at most 2^20. Where
    ``values`` differ in length, one ``*`` stands for any suffix, even an empty one: ``J45`` and ``J45.9`` both lie
    below ``J45*``.

    Attributes
    ----------
    keep : numbers of characters that the levels keep, each fewer than the one before, the leaves first; 0 is the root,
        which always exists
    length : number of characters of every value: all texts of this length are known, 2^20 at most. None where
        ``values`` are given
    alphabet : all characters of these texts, each once, without ``*``, in the order of the leaves
    values : all values, none empty and none with ``*``, or the path of a text file with one in each line
    """

    keep: Annotated[
        Items[Natural],
        about("numbers of characters that are kept, each fewer than the one before, such as [5, 4, 3, 2, 0]"),
    ]
    length: Annotated[Positive | None, about("a whole number, 1 or more: the characters of every value")] = None
    alphabet: Annotated[str, about("all characters of a value, each once, such as '0123456789'")] = DIGITS
    values: Annotated[
        Items[str] | None,
        BeforeValidator(_lines),
        about("a list of all values, or the path of a text file with one in each line"),
    ] = None

    kind: ClassVar[Literal["text"]] = "text"

    def __post_init__(self) -> None:
        longest = self._require_texts()
        if not self.keep or self.keep[0] < 1 or any(fewer >= more for more, fewer in pairwise(self.keep)):
            raise BuilderError(
                "keep", "must be numbers of characters, each fewer than the one before, such as [5, 4, 3, 2, 0]"
            )
        if self.keep[0] > longest:
            raise BuilderError("keep", f"begins with {self.keep[0]}; no value has more than {longest} characters")

    def paths(self) -> list[tuple[str, ...]]:
        return list({path[0]: path for path in self._ways()}.values())

    def finder(self) -> Finder:
        numbers: dict[str, int] = {}
        leaves = [numbers.setdefault(leaf, len(numbers)) for leaf, *_ in self._ways()]
        return table_finder(dict(zip(self._texts(), leaves, strict=True)))

    def _ways(self) -> Iterator[tuple[str, ...]]:
        """Yield the path of each text."""
        texts = self._texts()
        lengths = {len(text) for text in texts}
        levels: list[list[str]] = []
        for kept in filter(None, self.keep):
            masked = {text[:kept] for text in texts if len(text) > kept}
            stars = _STAR * (max(lengths) - kept) if len(lengths) == 1 else _STAR
            levels.append([text if len(text) <= kept and text not in masked else text[:kept] + stars for text in texts])
        for labels in zip(*levels, strict=True):
            yield (*labels, ROOT)

    def _texts(self) -> list[str]:
        """Return all known texts, with common prefixes adjacent."""
        if self.values is not None:
            return sorted(set(self.values))
        return list(map("".join, product(self.alphabet, repeat=self.length or 0)))

    def _require_texts(self) -> int:
        """Return the maximum length of a text.

        Raises
        ------
        BuilderError
            The known texts are undefined, invalid or too many.
        """
        if self.values is not None and self.length is not None:
            raise BuilderError("length", "goes without 'values'; give one of the two")
        if self.values is not None:
            if not self.values or not all(self.values) or any(_STAR in text for text in self.values):
                raise BuilderError("values", "must be texts, at least one, none of them empty and none with '*'")
            if len(self.values) > MOST_LEAVES:
                raise BuilderError("values", f"are {len(self.values)}; give 2^20 at most")
            return max(map(len, self.values))
        if self.length is None:
            raise BuilderError("length", "is missing; give it, such as 5, or all 'values'")
        if not self.alphabet or len(set(self.alphabet)) < len(self.alphabet) or _STAR in self.alphabet:
            raise BuilderError("alphabet", "must be characters, each once, without '*', such as '0123456789'")
        if self.length * log2(len(self.alphabet)) > log2(MOST_LEAVES):
            raise BuilderError(
                "length",
                f"makes {len(self.alphabet)}^{self.length} values, and 2^20 are known at most; give the 'values' that "
                "there are, or cut the column, such as by SUBSTRING in the source's query",
            )
        return self.length
