"""Messages of the command line."""

from __future__ import annotations

import pytest
import typer

from crenel.jobs.cli.cli_common import end, warn


def test_no_message_shows_the_password_of_a_url(capsys: pytest.CaptureFixture[str]) -> None:
    message = "sinks.released.path: ftp://scott:tiger@host/out is full"
    warn([message])
    with pytest.raises(typer.Exit):
        end(message, 1)
    shown = "sinks.released.path: ftp://******@host/out is full\n"
    assert capsys.readouterr().err == f"crenel: warning: {shown}crenel: {shown}"
