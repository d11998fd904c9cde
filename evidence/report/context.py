"""Content of the report page beside the outputs of a run: settings, flow of rows, sections, formats of numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from crenel.anonymity.model.errors import InputError
from crenel.anonymity.model.privacy import Privacy, SamplingAndNoise

Pairs = tuple[tuple[str, str], ...]
"""Names, each with a text."""

_LONGEST = 30
"""Maximum length of a label in a picture."""


class ReportError(InputError):
    """Error for a page that cannot be made; the message names the field, file or package, and the remedy."""


@dataclass(frozen=True)
class About:
    """The settings of a run, from its configuration.

    Attributes
    ----------
    name : of the configuration
    made : time at which the page was made, as text
    privacy, sampling_and_noise : privacy models and mechanisms; the latter None without sampling and noise
    algorithm : its name
    representative : whether a number is published as one representative value of its equivalence class
    published : whether suppressed tuples are published, fully generalized
    private : whether the guarantee is one of differential privacy
    synthetic : whether published records are synthetic, so that ``subjects`` counts records in the place of persons
    settings : of roles, privacy models and algorithm, in words
    versions : of programs, and hashes of the policy, hierarchies and code
    warnings : caveats for readers of the figures
    """

    name: str
    made: str
    privacy: Privacy
    algorithm: str
    settings: Mapping[str, Pairs]
    sampling_and_noise: SamplingAndNoise | None = None
    representative: bool = False
    published: bool = False
    private: bool = False
    synthetic: bool = False
    versions: Pairs = ()
    warnings: tuple[str, ...] = ()

    @property
    def counted(self) -> str:
        """Unit of k, of the privacy models and of ``subjects`` in the audit log."""
        return "synthetic records" if self.synthetic else "persons"


@dataclass(frozen=True)
class Flow:
    """Numbers of the rows of a run by their fate. None: no output counts them.

    Attributes
    ----------
    rows_in : rows read
    sampled_out : tuples that sampling excluded
    released : published tuples, without suppressed tuples that were published fully generalized
    suppressed, rejected : tuples and rows by reason
    published : suppressed tuples that were published, fully generalized
    forgotten : tuples of persons who were forgotten while the tuples were buffered
    delays : tuples by their delay in later tuples of their shard
    longest_delay : the longest delay, exact
    synthetic : published records that no row stands for, part of ``released``
    """

    released: int
    rows_in: int | None = None
    sampled_out: int | None = None
    suppressed: Mapping[str, int] | None = None
    rejected: Mapping[str, int] | None = None
    published: int = 0
    forgotten: int = 0
    delays: Mapping[int, int] | None = None
    longest_delay: int | None = None
    synthetic: int | None = 0

    @property
    def accounted(self) -> int:
        """Number of rows whose fate is known."""
        others = (self.suppressed or {}, self.rejected or {})
        # ``suppressed``, where it is known, includes the published ones.
        published = self.published if self.suppressed is None else 0
        known = sum(sum(reasons.values()) for reasons in others)
        return self.released + published + known + self.forgotten + (self.sampled_out or 0)

    @property
    def unpublished(self) -> int | None:
        """Suppressed tuples that were not published."""
        return None if self.suppressed is None else sum(self.suppressed.values()) - self.published


@dataclass(frozen=True)
class Table:
    """Numbers of a figure, or a table of its own; the first cell of a row is its header."""

    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Figure:
    """A picture with its text alternative and its numbers.

    Attributes
    ----------
    name : its identifier in the page
    title, text : its subject, and its content in words
    svg : the picture
    table : the numbers behind the picture
    below : whether the table is too wide to stand beside the picture
    """

    name: str
    title: str
    text: str
    svg: str
    table: Table
    below: bool = False


@dataclass(frozen=True)
class PageSection:
    """A section of the page.

    Attributes
    ----------
    name : its identifier in the page
    text : paragraphs
    items : a list below the paragraphs
    """

    name: str
    title: str
    text: tuple[str, ...] = ()
    items: tuple[str, ...] = ()
    figures: tuple[Figure, ...] = ()
    tables: tuple[Table, ...] = field(default=())


def count(amount: float) -> str:
    """Return a number of rows with thousands separators."""
    return f"{round(amount):,}"


def share(part: float, total: float) -> str:
    """Return a share in percent, 0 % or 100 % only if exact; a dash where the whole is 0."""
    if not total:
        return "-"
    ratio = part / total
    if 0 < ratio < 0.0005:
        return "<0.1%"
    return ">99.9%" if 0.9995 <= ratio < 1 else f"{ratio:.1%}"


def number(value: float) -> str:
    """Return the shortest form of an attribute's number."""
    return f"{value:,.0f}" if value == round(value) and abs(value) < 1e15 else f"{value:,.12g}"


def plain(text: str) -> str:
    """Replace control characters, which no page can show."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


def short(text: str) -> str:
    """Truncate a text that is too long for a picture."""
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1].rstrip() + "…"


def listed(names: Sequence[str]) -> str:
    """Join names as in a sentence."""
    return " and ".join((", ".join(names[:-1]), names[-1]) if len(names) > 1 else names)
