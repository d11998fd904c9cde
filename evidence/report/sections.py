"""Sections of the report page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from crenel.anonymity.model.policy import Policy, without_domain
from crenel.evidence.attack.result import Attack
from crenel.evidence.outputs import RunOutputs, values_of
from crenel.evidence.report import pictures
from crenel.evidence.report.bins import (
    bins_of_counts,
    bins_of_real,
    bins_of_whole,
    quantile_of_counts,
    weighted_quantile,
)
from crenel.evidence.report.context import About, Flow, PageSection, Table, count, listed, plain, share
from crenel.evidence.report.distributions import Spread
from crenel.evidence.report.losses import loss_by_attribute, loss_over_time, mean
from crenel.evidence.report.releases import PublishedReleases, diversity
from crenel.evidence.report.terms import terms


def guarantee_section(about: About) -> PageSection:
    """Return the section on privacy models, mechanisms and their settings."""
    tables = [
        Table(title, ("setting", "value"), tuple((plain(name), plain(text)) for name, text in pairs))
        for title, pairs in about.settings.items()
    ]
    text = [
        "Every release was checked against the privacy models before its publication. They hold for each release by "
        "itself, whatever the following sections state about all releases."
    ]
    if about.synthetic:
        text.append(
            "The published records are synthetic: counts with noise decide how many there are, and none is the record "
            "of a person. k, the privacy models and the sizes of groups count these records, and not persons."
        )
    return PageSection("promised", "Guarantees", tuple(text), tables=tuple(tables))


def rows(about: About, flow: Flow) -> PageSection:
    """Return the section on the fates of rows."""
    text = []
    if about.synthetic and flow.synthetic is None:
        text.append(
            "The number of published records that noise added is unknown, because there is no sink 'summary'. They are "
            "counted here as if each were a row."
        )
    elif flow.synthetic:
        text.append(
            f"{count(flow.synthetic)} of the {count(flow.released)} published records were added by noise. No row "
            "stands for them, so they are not counted here."
        )
    if flow.rows_in is None:
        text.append(
            "The number of rows that were read is unknown, because there is no sink 'summary'. Rows that were sampled "
            "out, or are still buffered, are in none of the outputs."
        )
    for name, amount in (("suppressed", flow.suppressed), ("rejected", flow.rejected)):
        if amount is None:
            text.append(f"The number of {name} rows is unknown, because there is no sink '{name}'.")
    if flow.published:
        text.append(
            f"{count(flow.published)} suppressed rows were published fully generalized. They are separate here, and "
            "in none of the distributions below."
        )
    return PageSection("rows", "Rows by outcome", tuple(text), figures=(pictures.flowing("flow", about, flow),))


def groups(about: About, left: PublishedReleases) -> PageSection:
    """Return the section on the sizes of equivalence classes."""
    title = "Sizes of groups"
    if not left.tuples.sum():
        return PageSection("groups", title, ("Nothing was published.",))
    facts: list[tuple[str, str]] = [("k", count(about.privacy.k))]
    text = ["A group, or equivalence class, is all rows that were published under one generalization."]
    if left.subjects is None:
        sizes, unit = np.bincount(left.group).astype(np.int64), "rows of the group"
        weights = sizes
        text.append(f"There is no audit log, so groups are counted in rows, and not in {about.counted}.")
    else:
        sizes, unit, weights = left.subjects, f"{about.counted} of the group", left.tuples
        text.append(
            "Each row counts by the number of synthetic records of its release; fewer persons may be behind them."
            if about.synthetic
            else "Each row counts by the number of persons behind its generalization at its release."
        )
    facts.append((f"minimum {unit}", count(sizes.min())))
    facts.append((f"median, over rows, of {unit}", count(weighted_quantile(sizes, weights, 0.5))))
    facts.append((f"maximum {unit}", count(sizes.max())))
    if left.subjects is not None:
        below = int(left.tuples[left.subjects < about.privacy.k].sum())
        facts.append((f"rows in groups of fewer than k {about.counted}", count(below)))
        alone = int(left.tuples[left.alone].sum())
        facts.append(("singleton releases under an earlier generalization", count(alone)))
    if left.smallest_group is not None:
        facts.append(("minimum rows of one generalization over all releases", count(left.smallest_group)))
        facts.append(("different generalizations", count(int(left.group.max()) + 1)))
    sized = bins_of_whole(sizes, weights)
    figure = pictures.distribution("groups-sizes", "Rows by the size of their group", unit, sized)
    table = Table("Sizes of groups", ("figure", "number"), tuple(facts))
    return PageSection("groups", title, tuple(text), figures=(figure,), tables=(table,))


_LOSSES = ("published_loss", "loss")


def cost(policy: Policy, about: About, left: PublishedReleases) -> PageSection:
    """Return the section on information loss."""
    title = "Cost"
    by_attribute = list(loss_by_attribute(left, policy))
    text = [
        "Loss is the share of detail that is lost: 0% for a value that is published unchanged, 100% for a value that "
        "is fully generalized. Figures are means over published rows (InfoLoss of CASTLE)."
    ]
    drawn = []
    if left.loss is None:
        text.append("There is no audit log, so the loss over time, and that of each release, is unknown.")
    elif policy.sets and left.tuples.sum():
        of_sets, of_ancestors = (np.average(left.table[name], weights=left.tuples) for name in _LOSSES)
        text.append(
            f"The published sets lose {of_sets:.1%}, by the share of all values that they list. The common ancestors "
            f"of the same groups would lose {of_ancestors:.1%}; the loss over time is theirs."
        )
    over_time = loss_over_time(left, about.privacy.k)
    if over_time:
        when = "by event time (UTC)" if left.time is not None else "in the order of the releases"
        drawn.append(pictures.over_time("loss-time", f"Loss {when}", over_time))
    if by_attribute:
        drawn.append(pictures.shares("loss-attribute", "Loss by attribute", "attribute", by_attribute, "mean loss"))
        names = listed([plain(name) for name in without_domain(policy)])
        if names:
            text.append(f"Without a domain, a number is measured by the range of all published values: {names}.")
    tables = [table for table in [_noise(policy, left)] if table is not None]
    return PageSection("cost", title, tuple(text), figures=tuple(drawn), tables=tuple(tables))


def _noise(policy: Policy, left: PublishedReleases) -> Table | None:
    """Return a table of the error of noise within releases, and of rows nearest to their own person's value."""
    if not policy.noised or left.loss is None or not left.tuples.sum():
        return None
    errors: list[tuple[str, str, str]] = []
    for attribute in policy.noised.values():
        means = [mean(left.table[f"noise_{kind}_{attribute.name}"], left.tuples) for kind in ("error", "expected")]
        error, expected = ("-" if value is None else f"{value:.1%}" for value in means)
        errors.append((plain(attribute.name), error, expected))
    linked = int(np.sum(left.table["linkable"].to_numpy()))
    errors.append(("rows nearest to their own person's value", share(linked, float(left.tuples.sum())), "-"))
    return Table("Noise within releases", ("attribute", "mean relative error", "expected"), tuple(errors))


def delay(flow: Flow) -> PageSection:
    """Return the section on delays."""
    title = "Delays"
    if not flow.delays:
        return PageSection("delay", title, ("The delays are unknown, because there is no sink 'summary'.",))
    facts = [(words, count(quantile_of_counts(flow.delays, q))) for words, q in (("median", 0.5), ("p99", 0.99))]
    facts.append(("longest", count(max(flow.delays) if flow.longest_delay is None else flow.longest_delay)))
    figure = pictures.distribution(
        "delays", "Rows by their delay", "later rows waited for", bins_of_counts(flow.delays)
    )
    text = (
        "A row waits until enough similar rows have arrived, or until its window closes. Its delay is the number of "
        "later rows of its shard.",
    )
    table = Table("Delay", ("figure", "later rows of the shard"), tuple(facts))
    return PageSection("delay", title, text, figures=(figure,), tables=(table,))


def sensitive(outputs: RunOutputs, left: PublishedReleases) -> Iterator[PageSection]:
    """Yield a section on the diversity of each sensitive column."""
    for place, name in enumerate(outputs.policy.sensitive):
        shown, title = plain(name), f"Diversity of {plain(name)}"
        anchor = f"diversity-{place}"
        measures = diversity(left, *values_of(outputs, name))
        if not len(measures.rows):
            yield PageSection(anchor, title, ("No published row has values to count.",))
            continue
        values, weights, unit = measures.values, measures.rows, "different values"
        if left.subjects is not None:
            values = left.table[f"diversity_{name}"].to_numpy().astype(np.int64)
            weights, unit = left.tuples, "diversity"
        text = (
            f"Three measures of {shown} in a group: the number of different values (l); the entropy (1 bit is as even "
            "as two equally common values); and the distance to the values of all rows (t: the share of the group that "
            "would have to change its value; 0 is equal to all rows, and all different values are equally distant). "
            "Entropy and t are counted in rows."
        )
        facts = [
            (f"minimum {unit}", count(values.min())),
            ("minimum entropy, in bits", f"{measures.entropy.min():.2f}"),
            ("mean entropy over rows, in bits", f"{np.average(measures.entropy, weights=measures.rows):.2f}"),
            ("maximum t", f"{measures.distance.max():.2f}"),
            ("mean t over rows", f"{np.average(measures.distance, weights=measures.rows):.2f}"),
        ]
        parts = (
            ("l", unit, bins_of_whole(values, weights)),
            ("entropy", "entropy in bits", bins_of_real(measures.entropy, measures.rows)),
            ("t", "t", bins_of_real(measures.distance, measures.rows)),
        )
        drawn = tuple(
            pictures.distribution(f"{anchor}-{measure}", f"Rows by {measure} of {shown}", header, bins)
            for measure, header, bins in parts
        )
        table = Table(f"Diversity of {shown}", ("figure", "number"), tuple(facts))
        yield PageSection(anchor, title, (text,), figures=drawn, tables=(table,))


def spreads(compared: Sequence[Spread], names: Sequence[str], about: About, *, is_complete: bool) -> PageSection:
    """Return the section that compares quasi-identifiers in the input and in the output."""
    title = "Input and output"
    if not compared:
        return PageSection("beside", title, ("No quasi-identifier has two ranges with enough persons.",))
    text = [
        "The columns that an attacker may know. A generalized row is spread evenly over its generalization. "
        f"Each range or label stands for {about.privacy.k} {about.counted} or more."
    ]
    if compared[0].came is None:
        text.append(
            "The input is unknown here; 'crenel report --input' reads it from the source, and crenel.report takes it "
            "as data."
        )
    elif not is_complete:
        text.append("The source is unbounded: the input is its beginning, and not all input of these outputs.")
    hidden = [plain(name) for name in names if name not in {spread.name for spread in compared}]
    if hidden:
        text.append(f"Omitted, because they lack two ranges or labels with so many persons: {listed(hidden)}.")
    drawn = tuple(pictures.beside(f"beside-{place}", spread) for place, spread in enumerate(compared))
    return PageSection("beside", title, tuple(text), figures=drawn)


def attacked(attacks: Sequence[Attack]) -> PageSection:
    """Return the section on attacks."""
    above = sum(attack.above for attack in attacks)
    text = (
        "Intervals are 95 % confidence intervals. The baseline is the success of the same attacker without the "
        "published records, or against persons who are not in them.",
        f"{above or 'None'} of {len(attacks)} attacks succeed{'s' if above == 1 else ''} significantly more often than "
        "k allows for an attacker who knows quasi-identifiers alone.",
    )
    kinds = [(kind, [attack for attack in attacks if attack.judged == kind]) for kind in ("outputs", "replay")]
    drawn = tuple(pictures.attacked(f"attacked-{kind}", kind, results) for kind, results in kinds if results)
    return PageSection("attacks", "Attacks", text, figures=drawn)


def warned(warnings: Sequence[str]) -> PageSection:
    """Return the section of warnings."""
    text = () if warnings else ("There are no warnings.",)
    return PageSection("warnings", "Warnings", text, items=tuple(plain(warning) for warning in warnings))


def standards(policy: Policy, about: About) -> PageSection:
    """Return the section on the mechanisms' names in standards."""
    rows = tuple((plain(here), iso, nist) for here, iso, nist in terms(policy, about))
    columns = ("mechanism here", "ISO/IEC 20889:2018", "NIST SP 800-188 (2023)")
    text = ("Names of the mechanisms in two standards. An equal name does not mean that a standard is met.",)
    return PageSection("standards", "Terms of standards", text, tables=(Table("Mechanisms in use", columns, rows),))


def versions(about: About) -> PageSection:
    """Return the section on versions and hashes."""
    text = ("Two runs with equal hashes had the same policy, hierarchies and code.",)
    table = Table("Versions and hashes", ("subject", "version or hash"), about.versions)
    return PageSection("versions", "Versions", text, tables=(table,))
