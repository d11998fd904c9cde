"""Assembly of the report: one self-contained HTML file without scripts."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path

from crenel.evidence.attack.result import Attack
from crenel.evidence.outputs import RunOutputs
from crenel.evidence.report import sections
from crenel.evidence.report.context import About, Flow, PageSection, ReportError, plain
from crenel.evidence.report.distributions import Axis, Came, axes
from crenel.evidence.report.distributions import spreads as spread
from crenel.evidence.report.figures import NEEDED
from crenel.evidence.report.releases import PublishedReleases, releases
from crenel.evidence.report.summary_section import not_guaranteed, opening


def require_packages() -> None:
    """Raise ``ReportError`` if a package for drawing or writing a page is not installed."""
    if not all(map(find_spec, ("jinja2", "matplotlib"))):
        raise ReportError(f"the report {NEEDED}")


class ReportPage:
    """The report page of a run.

    Parameters
    ----------
    outputs : of the run
    about : settings of the run

    Attributes
    ----------
    axes : bins for counting the input for ``html`` (``crenel.evidence.report.distributions.Came``)

    Raises
    ------
    ReportError
        A package is missing, or the outputs are of another policy.
    """

    def __init__(self, outputs: RunOutputs, about: About) -> None:
        require_packages()
        self._outputs = outputs
        self._about = about
        self._left: PublishedReleases = releases(outputs, published=about.published)
        self.axes: list[Axis] = axes(self._left, outputs.policy)

    def html(
        self, flow: Flow, *, came: Came | None = None, all_came: bool = True, attacks: Sequence[Attack] = ()
    ) -> str:
        """Return the HTML text of the page.

        Parameters
        ----------
        flow : numbers of the rows by their fate
        came : counts of the input, by ``axes``; None: the input is unknown
        all_came : whether ``came`` covers the complete input of these outputs, and not only its beginning
        attacks : results of attacks; none: the page omits the section
        """
        from jinja2 import Environment, StrictUndefined
        from markupsafe import Markup

        policy, about, left = self._outputs.policy, self._about, self._left
        names = [attribute.name for attribute in policy.attributes]
        page_sections: list[PageSection] = [
            sections.guarantee_section(about),
            sections.rows(about, flow),
            sections.groups(about, left),
            sections.cost(policy, about, left),
            sections.delay(flow),
            *sections.sensitive(self._outputs, left),
            sections.spreads(spread(self.axes, came, max(about.privacy.k, 2)), names, about, is_complete=all_came),
            *([sections.attacked(attacks)] if attacks else []),
            sections.warned([*about.warnings, *self._warnings()]),
            sections.standards(policy, about),
            sections.versions(about),
        ]
        both = ("page.html", "page.css")
        page, style = ((files("crenel.evidence.report") / name).read_text(encoding="utf-8") for name in both)
        environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
        return environment.from_string(page).render(
            name=plain(about.name),
            made=about.made,
            opening=list(opening(policy, about, left, flow)),
            not_guaranteed=list(not_guaranteed(policy, about)),
            sections=page_sections,
            # The template and style are ours, and matplotlib has escaped the texts of pictures.
            style=Markup(style),
            svg=Markup,
        )

    def _warnings(self) -> list[str]:
        left, k, counted = self._left, self._about.privacy.k, self._about.counted
        warnings = []
        if self._outputs.audit is None:
            warnings.append(f"sinks.audit: is missing; without it {counted}, losses and times of releases are unknown")
        if left.subjects is not None and (left.subjects < k).any():
            releases_below = int((left.subjects < k).sum())
            warnings.append(
                f"privacy.k: {releases_below} releases have fewer than {k} {counted}, its present value; they "
                "were made under a lower k" + ("" if self._about.synthetic else ", or privacy.persons.moved is 'count'")
            )
        return warnings


@dataclass(frozen=True)
class Place:
    """A writable file for the report, as far as this can be checked in advance.

    Raises
    ------
    ReportError
        The file is not writable, or a package for the page is not installed.
    """

    path: Path

    def __post_init__(self) -> None:
        require_packages()
        if self.path.is_dir():
            raise ReportError(f"{self.path} is a folder; name a file, such as {self.path / 'report.html'}")
        if not self.path.absolute().parent.is_dir():
            raise ReportError(f"{self.path} cannot be written: its folder does not exist")

    def write(self, text: str) -> None:
        """Write the page with read access for its owner alone; raise ``ReportError`` if that fails."""
        try:
            with open(self.path, "w", encoding="utf-8", newline="", opener=_private) as file:
                file.write(text)
        except OSError as error:
            raise ReportError(f"{self.path} cannot be written: {error.strerror}") from None


def _private(path: str, flags: int) -> int:
    """Open a file with access for its owner alone, even if it existed with wider permissions."""
    file = os.open(path, flags, 0o600)
    if stat.S_ISREG(os.fstat(file).st_mode):
        os.fchmod(file, 0o600)
    return file
