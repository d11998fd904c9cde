"""Inputs of evidence that follow from a configuration; apart, because a job needs neither replays nor verification."""

from __future__ import annotations

from crenel.anonymity.model.privacy import Privacy
from crenel.evidence.sample import Setting
from crenel.evidence.verify.chain import Chained
from crenel.evidence.verify.verify import Guarantees
from crenel.jobs.config.load import Config
from crenel.jobs.pipeline.digests import hierarchies_digest, policy_digest
from crenel.operators.output_columns import numbers_in_force


def setting_of(config: Config, privacy: Privacy) -> Setting:
    """Return the replay setting of a configuration; ``privacy``: its privacy models, with the codes of references."""
    return Setting(
        algorithm=config.algorithm,
        privacy=privacy,
        parameters=config.parameters,
        shards=config.shards,
        seed=config.seed or 0,
        sampling_and_noise=config.sampling_and_noise,
    )


def guarantees(config: Config) -> Guarantees:
    """Return the guarantees and settings of a configuration that its outputs can be checked against."""
    return Guarantees(
        privacy=config.privacy,
        in_force=numbers_in_force(config.privacy, config.sampling_and_noise),
        shards=config.shards.count,
        generalizes=getattr(config.parameters, "suppression", None) == "generalize",
        noise=config.sampling_and_noise is not None,
        chained=_chained(config),
    )


def _chained(config: Config) -> Chained | None:
    if config.audit_chain is None:
        return None
    return Chained(config.audit_chain.read(), policy_digest(config), hierarchies_digest(config))
