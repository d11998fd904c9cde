"""Content of the report page that the outputs of a run do not hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from crenel.anonymity.model.errors import InputError
from crenel.anonymity.model.privacy import Privacy, SamplingAndNoise

Pairs = tuple[tuple[str, str], ...]
"""Names, each with a text."""


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
    versions: Pairs = ()
    warnings: tuple[str, ...] = ()


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
        """Number of rows whose fate is known."""
        others = (self.suppressed or {}, self.rejected or {})
        # ``suppressed``, where it is known, includes the published ones.
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
class Section:
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
