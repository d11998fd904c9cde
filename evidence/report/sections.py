"""Sections of the report page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from crenel.anonymity.model.policy import Policy, without_domain
from crenel.evidence.attack.result import Attack
from crenel.evidence.outputs import Outputs
from crenel.evidence.report import pictures
from crenel.evidence.report.bins import bins_of_counts, bins_of_real, bins_of_whole, weighted_quantile
from crenel.evidence.report.context import About, Flow, Section, Table, count, listed, plain, share
from crenel.evidence.report.distributions import Spread
from crenel.evidence.report.losses import loss_by_attribute, loss_over_time, mean
from crenel.evidence.report.releases import Releases, diversity
from crenel.evidence.report.terms import terms


def promised(about: About) -> Section:
    """Return the section on privacy models, mechanisms and their settings."""
    tables = [
        Table(title, ("setting", "value"), tuple((plain(name), plain(text)) for name, text in pairs))
        for title, pairs in about.settings.items()
    ]
    text = (
        "Every release was checked for what is promised before anything of it left. The promises are of each release, "
        "whatever follows says about all of them together.",
    )
    return Section("promised", "What was promised", text, tables=tuple(tables))


def rows(flow: Flow) -> Section:
    """Return the section on the fates of rows."""
    text = []
    if flow.rows_in is None:
        text.append(
            "How many rows were read is not known here: no sink 'summary' is kept. What was sampled out, and what "
            "still waits in a stream without an end, is in none of the outputs."
        )
    for name, found in (("suppressed", flow.suppressed), ("rejected", flow.rejected)):
        if found is None:
            text.append(f"How many rows were {name} is not known here: no sink '{name}' is kept.")
    if flow.published:
        text.append(
            f"{count(flow.published)} suppressed rows were published with the widest generalization. They are told "
            "apart here, and counted in none of the distributions below."
        )
    return Section("rows", "What became of the rows", tuple(text), figures=(pictures.flowing("flow", flow),))


def groups(about: About, left: Releases) -> Section:
    """Return the section on the sizes of equivalence classes."""
    title = "How large the groups are"
    if not left.tuples.sum():
        return Section("groups", title, ("Nothing left.",))
    facts: list[tuple[str, str]] = [("persons promised (k)", count(about.privacy.k))]
    text = ["A group is all rows that left with the same generalization, and so cannot be told apart by it."]
    if left.subjects is None:
        sizes, what = np.bincount(left.group).astype(np.int64), "rows of the group"
        weights = sizes
        text.append("No audit log is kept, so groups are counted in rows here, and not in persons.")
    else:
        sizes, what, weights = left.subjects, "persons of the group", left.tuples
        text.append("For each row, the number of persons who were behind its generalization when it was released.")
    facts.append((f"least {what}", count(sizes.min())))
    facts.append((f"median, over rows, of {what}", count(weighted_quantile(sizes, weights, 0.5))))
    facts.append((f"most {what}", count(sizes.max())))
    if left.subjects is not None:
        below = int(left.tuples[left.subjects < about.privacy.k].sum())
        facts.append(("rows in groups of fewer than k persons", count(below)))
        alone = int(left.tuples[left.alone].sum())
        facts.append(("rows that left alone, under a generalization of others before", count(alone)))
    if left.smallest_group is not None:
        facts.append(("least rows of one generalization in all that was released", count(left.smallest_group)))
        facts.append(("different generalizations", count(int(left.group.max()) + 1)))
    sized = bins_of_whole(sizes, weights)
    figure = pictures.distribution("groups-sizes", "Rows by the size of their group", what, sized)
    table = Table("Sizes of groups", ("what", "number"), tuple(facts))
    return Section("groups", title, tuple(text), figures=(figure,), tables=(table,))


def cost(policy: Policy, about: About, left: Releases) -> Section:
    """Return the section on information loss."""
    title = "What it cost"
    by_attribute = list(loss_by_attribute(left, policy))
    text = [
        "Loss says how much of the detail is gone: 0% where a value is published as it was, 100% where nothing of it "
        "is told. It is the mean over rows that left (InfoLoss of CASTLE)."
    ]
    drawn = []
    if left.loss is None:
        text.append("No audit log is kept, so the loss over time, and that of each release, is not known here.")
    over_time = loss_over_time(left, about.privacy.k)
    if over_time:
        when = "by event time (UTC)" if left.time is not None else "in the order of the releases"
        drawn.append(pictures.over_time("loss-time", f"Loss {when}", over_time))
    if by_attribute:
        drawn.append(pictures.shares("loss-attribute", "Loss by attribute", "attribute", by_attribute, "mean loss"))
        names = listed([plain(name) for name in without_domain(policy)])
        if names:
            text.append(f"Without a domain, a number is measured by the range of all that left: {names}.")
    tables = [table for table in [_noise(policy, left)] if table is not None]
    return Section("cost", title, tuple(text), figures=tuple(drawn), tables=tuple(tables))


def _noise(policy: Policy, left: Releases) -> Table | None:
    """Return a table of the error of noise within releases, and of rows nearest to their own person's value."""
    if not policy.noised or left.columns is None or not left.tuples.sum():
        return None
    found: list[tuple[str, str, str]] = []
    for attribute in policy.noised:
        means = [mean(left.columns[f"noise_{kind}_{attribute.name}"], left.tuples) for kind in ("error", "expected")]
        error, expected = ("-" if value is None else f"{value:.1%}" for value in means)
        found.append((plain(attribute.name), error, expected))
    linked = int(np.sum(left.columns["linkable"].to_numpy()))
    found.append(("rows nearest to their own person's value", share(linked, float(left.tuples.sum())), "-"))
    return Table("Noise within releases", ("attribute", "mean relative error", "expected"), tuple(found))


def delay(flow: Flow) -> Section:
    """Return the section on delays."""
    title = "How long rows waited"
    if not flow.delays:
        return Section("delay", title, ("It is not known here: no sink 'summary' is kept.",))
    keys = np.array(sorted(flow.delays), np.int64)
    amounts = np.array([flow.delays[key] for key in keys.tolist()], np.int64)
    facts = [
        (words, count(weighted_quantile(keys, amounts, q)))
        for words, q in (("median", 0.5), ("99 of 100 rows, at most", 0.99))
    ]
    facts.append(("longest", count(flow.longest_delay if flow.longest_delay is not None else keys[-1])))
    figure = pictures.distribution(
        "delays", "Rows by how long they waited", "later rows waited for", bins_of_counts(flow.delays)
    )
    text = ("A row waits until enough others like it have come. Here that is counted in later rows of its shard.",)
    table = Table("Delay", ("of all rows", "later rows of the shard"), tuple(facts))
    return Section("delay", title, text, figures=(figure,), tables=(table,))


def sensitive(outputs: Outputs, left: Releases) -> Iterator[Section]:
    """Yield a section on the diversity of each sensitive column."""
    for place, name in enumerate(outputs.policy.sensitive):
        shown, title = plain(name), f"Diversity of {plain(name)}"
        anchor = f"diversity-{place}"
        found = diversity(left, outputs.released[name])
        if not len(found.rows):
            yield Section(anchor, title, ("Nothing left whose values could be counted.",))
            continue
        values, weights, what = found.values, found.rows, "different values"
        if left.columns is not None:
            values = left.columns[f"diversity_{name}"].to_numpy().astype(np.int64)
            weights, what = left.tuples, "l that is kept"
        text = (
            f"How many different values of {shown} the rows of a group have (l), how evenly these are mixed (entropy; "
            "1 bit is as even as two equally common values), and how far they are from those of all rows (t: the share "
            "of the group that would have to change its value; 0 is exactly like all, and values that are unlike count "
            "as equally far from each other). A group's entropy and t are counted in rows."
        )
        facts = [
            (f"least {what}", count(values.min())),
            ("least entropy, in bits", f"{found.entropy.min():.2f}"),
            ("mean entropy over rows, in bits", f"{np.average(found.entropy, weights=found.rows):.2f}"),
            ("largest t", f"{found.distance.max():.2f}"),
            ("mean t over rows", f"{np.average(found.distance, weights=found.rows):.2f}"),
        ]
        parts = (
            ("l", what, bins_of_whole(values, weights)),
            ("entropy", "entropy in bits", bins_of_real(found.entropy, found.rows)),
            ("t", "t", bins_of_real(found.distance, found.rows)),
        )
        drawn = tuple(
            pictures.distribution(f"{anchor}-{measure}", f"Rows by {measure} of {shown}", header, bins)
            for measure, header, bins in parts
        )
        table = Table(f"Diversity of {shown}", ("what", "number"), tuple(facts))
        yield Section(anchor, title, (text,), figures=drawn, tables=(table,))


def spreads(found: Sequence[Spread], names: Sequence[str], about: About, *, whole: bool) -> Section:
    """Return the section that compares quasi-identifiers in the input and in the output."""
    title = "What came in beside what left"
    if not found:
        return Section("beside", title, ("No quasi-identifier has two ranges that hold enough persons to be shown.",))
    text = [
        "The columns that an outsider may know. What left generalized is spread evenly over all that it may have been. "
        f"Each range or label stands for {about.privacy.k} persons or more."
    ]
    if found[0].came is None:
        text.append("What came in is not known here; 'crenel report --input' reads the source for it.")
    elif not whole:
        text.append("The source has no end: what came in is a beginning of it, and not all that these outputs are of.")
    hidden = [plain(name) for name in names if name not in {spread.name for spread in found}]
    if hidden:
        text.append(f"Not shown, as no two ranges or labels of it hold so many: {listed(hidden)}.")
    drawn = tuple(pictures.beside(f"beside-{place}", spread) for place, spread in enumerate(found))
    return Section("beside", title, tuple(text), figures=drawn)


def attacked(attacks: Sequence[Attack]) -> Section:
    """Return the section on attacks."""
    above = sum(attack.above for attack in attacks)
    text = (
        "Bounds are 95 % confidence intervals. The baseline is the success of the same attacker without the published "
        "records, or against persons who are not in them.",
        f"{above or 'None'} of {len(attacks)} attacks surely succeed{'s' if above == 1 else ''} more often than k "
        "allows for an attacker who knows quasi-identifiers alone.",
    )
    kinds = [(kind, [attack for attack in attacks if attack.judged == kind]) for kind in ("outputs", "replay")]
    drawn = tuple(pictures.attacked(f"attacked-{kind}", kind, found) for kind, found in kinds if found)
    return Section("attacks", "What an attacker could learn", text, figures=drawn)


def warned(warnings: Sequence[str]) -> Section:
    """Return the section of warnings."""
    text = () if warnings else ("There are none.",)
    return Section("warnings", "Warnings", text, items=tuple(plain(warning) for warning in warnings))


def standards(policy: Policy, about: About) -> Section:
    """Return the section on the mechanisms' names in standards."""
    rows = tuple((plain(here), iso, nist) for here, iso, nist in terms(policy, about))
    columns = ("mechanism here", "ISO/IEC 20889:2018", "NIST SP 800-188 (2023)")
    text = ("How two standards call what was done. A name in common is no statement that a standard is met.",)
    return Section("standards", "Terms of standards", text, tables=(Table("Mechanisms in use", columns, rows),))


def versions(about: About) -> Section:
    """Return the section on versions and hashes."""
    text = ("Equal hashes tell that two runs followed the same policy, hierarchies and code.",)
    table = Table("Versions and hashes", ("what", "version or hash"), about.versions)
    return Section("versions", "Versions", text, tables=(table,))
