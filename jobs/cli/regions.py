"""Implementation of ``crenel regions``: learns a division of a stream by regions, and writes it to a file."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from pathlib import Path

from rich.console import Console

from crenel.anonymity.model.errors import ConfigError
from crenel.anonymity.model.policy import without_domain
from crenel.anonymity.regions.learn import RegionsError, learn, members_of
from crenel.anonymity.regions.private import learn_privately
from crenel.jobs.cli.cli_common import table
from crenel.jobs.config.load import Config, load
from crenel.jobs.local.sample import Sampled, read_sample
from crenel.regions_file import regions_text

_NOISE = (
    "sampling_and_noise: refuses regions, because a shard chosen by them discloses values that noise hides; remove it, "
    "or divide the stream by subject"
)

_LARGE = 1.5
"""Factor of the records of a cell over k, for an algorithm without an account."""


def write_regions(
    path: Path,
    overrides: Sequence[str],
    count: int,
    rows: int,
    output: Path,
    console: Console,
    private: float | None = None,
    least: int | None = None,
) -> None:
    """Read a sample of a job's source, learn regions from it, write them, and print them.

    Parameters
    ----------
    path : of the configuration; its own ``shards`` are ignored
    count : regions, 1 or more
    rows : tuples of the sample, 1 or more
    output : the regions file
    private : epsilon of a differentially private procedure, which reads all of a bounded source; None: no privacy
    least : with ``private``, tuples that a cell should have at least; None: as ``_persons`` says

    Raises
    ------
    ConfigError, JobError, JavaError
        As ``crenel.jobs.local.run.run`` does.
    RegionsError
        The sample is too small for so many regions.
    OSError
        The file cannot be written.
    """
    config = load(path, [*overrides, "shards={}"], with_regions=False)
    if config.sampling_and_noise is not None:
        raise ConfigError(path, [_NOISE])
    if private is not None and (without := list(without_domain(config.policy))):
        raise ConfigError(path, [f"policy.quasi_identifiers.{name}.domain: --private needs one" for name in without])
    sampled = read_sample(config, rows if private is None else None)
    if sampled.sample is None:
        raise RegionsError(f"no tuple was read, and {sampled.rejected:,} rows were rejected, so no region is possible")
    members = members_of(config.privacy.k)
    if private is not None:
        tree = learn_privately(sampled.policy, sampled.sample, count, least or _persons(config), private)
        output.write_text(regions_text(sampled.policy, tree, 0, members), encoding="utf-8")
        console.print(_counts(sampled), soft_wrap=True)
        console.print(
            f"{output} has {len(tree)} cells, by an epsilon of {private:g} for each person whose record was read. Use "
            "it with cells: {partition: FILE}.",
            soft_wrap=True,
            markup=False,
        )
        return
    tree = learn(sampled.policy, sampled.sample, count, members)
    output.write_text(regions_text(sampled.policy, tree, len(sampled.sample), members), encoding="utf-8")
    console.print(_counts(sampled), soft_wrap=True)
    regions = table("shard", "share", "expected loss")
    for number, (share, loss) in enumerate(zip(tree.share.tolist(), tree.loss.tolist(), strict=True)):
        regions.add_row(str(number), f"{share:.1%}", f"{loss:.3f}")
    console.print(regions)
    undivided = learn(sampled.policy, sampled.sample, 1, members).loss[0]
    console.print(
        f"\nExpected loss of {members} tuples at random: {tree.share @ tree.loss:.3f} within a region, "
        f"{undivided:.3f} among all.",
        soft_wrap=True,
    )
    console.print(
        f"{output} holds quantiles of the sample. Use it with shards: {{count: {count}, by: regions, regions: FILE}}.",
        soft_wrap=True,
    )


def _persons(config: Config) -> float:
    """Return how many persons a cell needs for keys that are published often, one for each declared label."""
    policy, figures = config.policy, config.algorithm.account(config.privacy)
    each = figures.get("persons_published_often", _LARGE * config.privacy.k)
    return each * prod(len(set(column.labels)) for column in policy.generalized.values())


def _counts(sampled: Sampled) -> str:
    kept = 0 if sampled.sample is None else len(sampled.sample)
    read = f"{sampled.tuples:,} tuples were read"
    rejected = f", and {sampled.rejected:,} rows rejected" if sampled.rejected else ""
    if not sampled.ends:
        return f"{read}{rejected}, the first of an unbounded source; {kept:,} of them are the sample."
    return f"{read}{rejected}, all of the source; {kept:,} of them are the sample."
