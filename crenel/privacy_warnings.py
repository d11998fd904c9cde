"""Warnings about valid settings with weaker guarantees than they suggest."""

from __future__ import annotations

from collections.abc import Iterator

from crenel.anonymity.model.policy import Pseudonym
from crenel.anonymity.model.privacy import Persons
from crenel.anonymity.model.secret import SHORTEST_KEY
from crenel.operators.digests import PlanSettings

OBSERVED_RANGE = (
    "sampling_and_noise.range: observed scales noise by the range seen so far. That range is made of values of "
    "persons, so the noise itself leaks them; and the noise of a shard's first tuples is zero or small. With a domain "
    "for each numeric quasi-identifier and 'range: declared' neither is so"
)

PREDICTABLE = (
    "seed: fixes the noise. An attacker who knows the seed can remove the noise, and no epsilon holds against them; a "
    "seed is for tests, so leave it out"
)

UNKEYED = (
    "subject_key: is not given. State keeps hashes of subjects, and without a key, a reader of a checkpoint can test "
    f"guesses of the persons in it; give {SHORTEST_KEY} random bytes or more, best as {{environment: NAME}}, or in a "
    "file as ${CRENEL_SUBJECT_KEY}"
)

SHORT_KEY = (
    f"subject_key: is shorter than {SHORTEST_KEY} bytes. A reader of a checkpoint may guess the key, and then the "
    f"persons in it; give {SHORTEST_KEY} random bytes or more"
)

STATE_WARNINGS = (UNKEYED, SHORT_KEY)
"""Warnings about stored state. A program has such state only where it takes a snapshot."""

UNKEYED_CHAIN = (
    "audit_chain.key: is not given. An attacker who can change the audit log can chain it anew, and values of released "
    f"rows are not covered; give {SHORTEST_KEY} random bytes or more, best as ${{CRENEL_AUDIT_KEY}}"
)

SHORT_CHAIN_KEY = (
    f"audit_chain.key: is shorter than {SHORTEST_KEY} bytes. An attacker who guesses it can chain the audit log "
    f"anew; give {SHORTEST_KEY} random bytes or more"
)

DUPLICATES = (
    "accept_duplicates: true lets a record be published twice after a failure, under two generalizations, which "
    "together may leave fewer than k people"
)

UNSAMPLED = (
    "sampling_and_noise.sample_rate: 1 lets every tuple in. There is noise, but without sampling no epsilon is "
    "guaranteed, however large"
)


LINKED = (
    "policy.pseudonym.accept_linkable: true shows which rows are one person's, under a guarantee of each release "
    "alone. An attacker who knows a person at several times can intersect their rows, and fewer than k people may be "
    "left"
)

OUTLASTING = (
    "policy.pseudonym.scope: links rows across privacy.persons.horizon. The guarantee covers rows within the horizon, "
    "and nothing that the code reveals beyond it; leave the horizon out, or choose a scope that is shorter"
)

FORGETFUL = (
    "epoch: is not 1, so the shards know nothing of rows published before they began anew, and "
    "privacy.persons.guarantee: lasting covers the rows since then. An attacker who sees both can intersect a person's "
    "earlier and later rows"
)

SPENT_ANEW = (
    "epoch: is not 1, so the shards know nothing of contributions before they began anew, and each person may "
    "contribute again. epsilon and delta hold for each epoch alone: for a horizon with windows of several epochs, add "
    "up those of the epochs"
)

WITHOUT_LEAST = (
    "privacy.noise_within_release.least: is 0, so a release whose members have the same number publishes it as it is; "
    "give a share of the domain's width, such as 0.02"
)


def startup_warnings(settings: PlanSettings) -> Iterator[str]:
    """Yield the warnings for a run with settings, each with its field."""
    policy, noise, privacy = settings.policy, settings.sampling_and_noise, settings.privacy
    within, key, seeded = privacy.noise_within_release, settings.subject_key.read(), settings.seed is not None
    if noise is not None:
        if noise.has_observed_range and policy.numeric:
            yield OBSERVED_RANGE
        if noise.sample_rate == 1:
            yield UNSAMPLED
        if seeded:
            yield PREDICTABLE
    elif seeded and (within is not None or settings.algorithm.private):
        yield PREDICTABLE
    if within is not None and within.least == 0 and within.scale == "release":
        yield WITHOUT_LEAST
    if policy.subject is not None and len(key) < SHORTEST_KEY:
        yield SHORT_KEY if key else UNKEYED
    if policy.pseudonym is not None and policy.pseudonym.links_releases:
        if privacy.lasting is None:
            yield LINKED
        elif _outlasts(policy.pseudonym, privacy.lasting):
            yield OUTLASTING


def chain_warnings(key: bytes | None) -> Iterator[str]:
    """Yield the warnings about the key of the audit log's hash chain; empty: no key; None: no chain."""
    if key is not None and len(key) < SHORTEST_KEY:
        yield SHORT_CHAIN_KEY if key else UNKEYED_CHAIN


def epoch_warnings(epoch: int, lasting: Persons | None, *, private: bool) -> Iterator[str]:
    """Yield the warnings about shards that began anew."""
    if epoch != 1 and lasting is not None:
        yield FORGETFUL
    if epoch != 1 and private:
        yield SPENT_ANEW


def _outlasts(pseudonym: Pseudonym, lasting: Persons) -> bool:
    """Return whether a code stays the same for longer than the horizon of the lasting privacy model."""
    return lasting.horizon is not None and (pseudonym.scope == "stream" or lasting.horizon < 86_400_000)
