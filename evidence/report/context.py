"""What the page of a run shows, beside what its outputs hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from crenel.anonymity.model.errors import InputError
from crenel.anonymity.model.privacy import Privacy, SamplingAndNoise

Pairs = tuple[tuple[str, str], ...]
"""Names, each with a text."""


class ReportError(InputError):
    """A page that cannot be made; the message names the field, file or package, and what would help."""


@dataclass(frozen=True)
class About:
    """What a run was to do, as its configuration says.

    Attributes
    ----------
    name : of the configuration
    made : when the page was made, as text
    privacy, sampling_and_noise : what was promised; the latter None where there is neither sampling nor noise
    algorithm : its name
    representative : whether a number is published as one value, which stands for its group
    published : whether suppressed tuples are published, fully generalized
    settings : of roles, promises and algorithm, in words
    versions : of programs, and hashes of what the run followed
    warnings : what to read the figures with
    """

    name: str
    made: str
    privacy: Privacy
    algorithm: str
    settings: Mapping[str, Pairs]
    sampling_and_noise: SamplingAndNoise | None = None
    representative: bool = False
    published: bool = False
    versions: Pairs = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Flow:
    """What became of the rows of a run. None: nobody kept account of it.

    Attributes
    ----------
    rows_in : rows read
    sampled_out : tuples that sampling did not let in
    released : tuples that left, without those that were suppressed and published all the same
    suppressed, rejected : tuples and rows by reason
    published : how many of the suppressed ones were published, fully generalized
    forgotten : tuples of persons who were forgotten while they waited
    delays : tuples by how many later ones of their shard they waited for
    longest_delay : the longest of these, exact
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

    @property
    def accounted(self) -> int:
        """Rows of which it is known what became of them."""
        others = (self.suppressed or {}, self.rejected or {})
        # The suppressed ones hold those that were published, where anybody kept account of them.
        published = self.published if self.suppressed is None else 0
        known = sum(sum(reasons.values()) for reasons in others)
        return self.released + published + known + self.forgotten + (self.sampled_out or 0)

    @property
    def withheld(self) -> int | None:
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
    title, text : what it shows, and what there is to be seen
    svg : the picture
    table : the numbers that it is drawn from
    below : whether the table is too wide to stand beside it
    """

    name: str
    title: str
    text: str
    svg: str
    table: Table
    below: bool = False


@dataclass(frozen=True)
class Section:
    """A part of the page.

    Attributes
    ----------
    name : its identifier in the page
    text : paragraphs
    items : a list below them
    """

    name: str
    title: str
    text: tuple[str, ...] = ()
    items: tuple[str, ...] = ()
    figures: tuple[Figure, ...] = ()
    tables: tuple[Table, ...] = field(default=())
