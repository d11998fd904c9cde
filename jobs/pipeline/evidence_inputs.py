"""Inputs of evidence that follow from a configuration; apart, because a job needs no evidence of its outputs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime, timezone

from crenel.anonymity.model.durations import format_duration
from crenel.anonymity.model.privacy import Privacy
from crenel.evidence.report.context import About
from crenel.evidence.sample import Setting
from crenel.evidence.verify.chain import Chained
from crenel.evidence.verify.verify import Guarantees
from crenel.jobs.config.description import guarantee_lines, roles
from crenel.jobs.config.load import Config
from crenel.jobs.local.versions import versions
from crenel.jobs.pipeline.digests import hierarchies_digest, policy_digest, settings_digest
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
        synthetic=config.algorithm.synthetic(config.parameters),
        chained=_chained(config),
    )


def _chained(config: Config) -> Chained | None:
    if config.audit_chain is None:
        return None
    return Chained(
        config.audit_chain.read(), policy_digest(config), hierarchies_digest(config), settings_digest(config)
    )


def about(config: Config, name: str, warnings: Sequence[str]) -> About:
    """Return the settings of a run for its report; ``name``: of the configuration."""
    # Knowledge of the seed would allow an attacker to reproduce the random choices.
    seed = {"seed": "fixed"} if config.seed is not None else {}
    settings_text = ((name, seed.get(name, _timed(text))) for name, text in guarantee_lines(config))
    return About(
        name=name,
        made=datetime.now(timezone.utc).strftime("%d %B %Y, %H:%M UTC"),
        privacy=config.privacy,
        algorithm=config.algorithm.name,
        settings={"Roles of columns": tuple(roles(config)), "Privacy models and settings": tuple(settings_text)},
        sampling_and_noise=config.sampling_and_noise,
        representative=config.algorithm.representative(config.parameters),
        published=getattr(config.parameters, "suppression", "withhold") == "generalize",
        private=config.algorithm.private,
        synthetic=config.algorithm.synthetic(config.parameters),
        versions=tuple(versions(config)),
        warnings=tuple(warnings),
    )


def _timed(text: str) -> str:
    """Write the durations in a text as a configuration does."""
    return re.sub(r"\b(\d+) ms\b", lambda found: format_duration(int(found[1])), text)
