"""Golden snapshot of where a hash chain stands. ``python -m tests.golden.make_chain`` makes it."""

from __future__ import annotations

from pathlib import Path

from crenel.state.operator import ChainState
from tests.golden.make import HERE, refuse_anew

STATE = ChainState(bytes(range(32)), 4711, 3)


def main(parent: Path = HERE / "chain") -> None:
    """Make that of this version."""
    folder = parent / f"v{ChainState.VERSION}"
    refuse_anew(folder)
    folder.mkdir(parents=True)
    (folder / "chain.bin").write_bytes(STATE.to_bytes())


if __name__ == "__main__":
    main()
