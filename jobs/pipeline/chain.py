"""Hash chain settings of a job's audit log."""

from __future__ import annotations

from crenel.jobs.config.load import Config
from crenel.jobs.pipeline.digests import code_version, hierarchies_digest, policy_digest
from crenel.jobs.pipeline.layout import Layout
from crenel.jobs.pipeline.sink_columns import promised_numbers
from crenel.operators.shards.chain import ChainPlan


def chain_plan(config: Config, found: Layout, null_text: str) -> ChainPlan | None:
    """Return the chain settings of a job's audit log; None without a chain.

    ``null_text``: text by which the released output writes a missing value.
    """
    if config.audit_chain is None:
        return None
    reads = (*found.sensitive, *found.noised, *found.passthrough)
    return ChainPlan(
        key=config.audit_chain,
        in_force=tuple(promised_numbers(config.privacy, config.sampling_and_noise).values()),
        version=code_version(),
        policy=policy_digest(config),
        hierarchies=hierarchies_digest(config),
        null_text=null_text,
        lengths=tuple((read.longest, read.padded) for read in reads),
    )
