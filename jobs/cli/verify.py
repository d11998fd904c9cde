"""Implementation of ``crenel verify``: checks the outputs of a run, and prints the verdict."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console

from crenel.evidence.verify.verdict import BROKEN, HOLDS, UNCHECKED, UNSEEN, Check, Head, Outcome, Verdict
from crenel.evidence.verify.verify import verify
from crenel.evidence_inputs import guarantees, require_one_run
from crenel.jobs.cli.cli_common import table
from crenel.jobs.config.load import Config
from crenel.jobs.local.outputs import OutputsError, read_outputs

_MOST = 10
_SHOWN = {HOLDS: "holds", BROKEN: "BROKEN", UNCHECKED: "NOT CHECKED", UNSEEN: "not seen"}

EXIT_CODES: Mapping[Outcome, int] = {HOLDS: 0, BROKEN: 1, UNCHECKED: 3}
"""Exit codes of the command by outcome; code 2 means that the outputs cannot be read."""


def verdict_of(
    configs: Mapping[str, Config], since: Path | None = None, *, run: str | None = None, runs_on: bool = False
) -> Verdict:
    """Read the outputs of a configuration, and check them.

    Parameters
    ----------
    configs : by name; several, if the job was restored with other settings
    since : an earlier output of ``crenel verify --json``, whose ``heads`` must still exist
    run : identity of the run, as ``crenel run`` prints it
    runs_on : whether the job is known to run on, so that its chain has no end yet

    Raises
    ------
    ConfigError
        As ``require_one_run`` does.
    OutputsError
        ``since`` is no such file, or there is no chain for it or for ``run``; and as ``read_outputs`` does.
    """
    chains = {name: config.audit_chain for name, config in configs.items()}
    require_one_run({name: config.settings for name, config in configs.items()}, chains)
    has_chain = any(chain is not None for chain in chains.values())
    if not has_chain and since is not None:
        raise OutputsError("audit_chain: is missing, and --since compares the ends of its chain; remove one of them")
    if not has_chain and run is not None:
        raise OutputsError(
            "audit_chain: is missing, and --run compares the run that its chain states; remove one of them"
        )
    earlier = None if since is None else _heads(since)
    return verify(
        read_outputs(*configs.values(), foreign=True),
        [guarantees(config.settings, config.audit_chain, name) for name, config in configs.items()],
        earlier,
        run=run,
        runs_on=runs_on,
    )


def _heads(path: Path) -> list[Head]:
    try:
        heads = json.loads(path.read_text(encoding="utf-8"))["heads"]
        return [
            Head(int(head["shard"]), int(head["release"]), str(head["chain"]), bool(head.get("closing", False)))
            for head in heads
        ]
    except OSError as error:
        raise OutputsError(f"--since: {path} cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise OutputsError(f"--since: {path} is not an output of 'crenel verify --json'") from None


def show(verdict: Verdict, console: Console) -> None:
    """Print the verdict."""
    checks = table("statement", "outcome", "scope", words=3, show_header=False)
    for column in checks.columns[:2]:
        column.no_wrap = True
    for check in sorted(verdict.checks, key=lambda check: (check.outcome == UNSEEN, check.outcome == UNCHECKED)):
        checks.add_row(
            check.name, _SHOWN[check.outcome], check.words if check.outcome != BROKEN else _found(check.findings)
        )
    console.print(checks)
    for check in verdict.checks:
        if check.findings:
            console.print(f"\n{check.name}", style="bold")
            for finding in check.findings[:_MOST]:
                console.print(f"  {finding}", soft_wrap=True)
            if len(check.findings) > _MOST:
                console.print(f"  and {len(check.findings) - _MOST:,} more; --json lists all")
    console.print()
    console.print(_sentence(verdict.checks), soft_wrap=True)


def _sentence(checks: Sequence[Check]) -> str:
    """Return the verdict in one sentence."""
    broken = sum(check.outcome == BROKEN for check in checks)
    skipped = [check.name for check in checks if check.outcome == UNCHECKED]
    sentences = [f"{broken} of {len(checks)} statements are broken."] if broken else []
    if skipped:
        rest = "" if broken else "All checked statements hold, but "
        sentences.append(f"{rest}{len(skipped)} statements were not checked ({', '.join(skipped)}).")
    return " ".join(sentences) or "All checked statements hold."


def _found(findings: tuple[object, ...]) -> str:
    return f"{len(findings):,} findings, below" if len(findings) > 1 else "1 finding, below"
