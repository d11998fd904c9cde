"""Client of a schema registry with Confluent's interface (``GET /schemas/ids/ID``)."""

from __future__ import annotations

import base64
import json
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.client import HTTPException
from typing import Generic, TypeVar
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from crenel.anonymity.model.errors import PolicyError
from crenel.anonymity.model.secret import Secret

_SECONDS = 5.0
"""For one answer."""

_PATIENCE = 30.0
"""Seconds for which a registry that does not answer is asked again."""

_PAUSES = (0.2, 0.5, 1.0, 2.0)
_LARGEST = 10 << 20
"""Bytes of the largest schema to read."""

_FORGOTTEN_AFTER = 60.0
"""Seconds until the registry is asked again for a schema that it did not have."""

_SCHEMAS = 10_000
"""Maximum number of schemas to remember; defective records may name any number of absent ones."""

Resolved = TypeVar("Resolved")

_ABSENT, _FORBIDDEN = (404,), (401, 403)
_log = logging.getLogger(__name__)


class UnavailableError(PolicyError):
    """A registry that does not answer: a fault of no record, so none is rejected for it."""


@dataclass(frozen=True)
class SchemaRegistry:
    """A registry of schemas by number.

    Attributes
    ----------
    url : address of its Confluent-compatible interface, without credentials
    user, password : for basic authentication; None: neither is sent
    field : field of the configuration, for errors
    """

    url: str
    user: str | None = None
    password: Secret | None = None
    field: str = "registry"

    def schema(self, number: int) -> str | None:
        """Return the text of a schema; None if the registry does not have it.

        Raises
        ------
        UnavailableError
            The registry refuses the credentials, or does not answer for 30 seconds.
        """
        until, pauses = time.monotonic() + _PATIENCE, iter(_PAUSES)
        while True:
            try:
                return self._ask(number)
            except HTTPError as error:
                if error.code in _ABSENT:
                    return None
                if error.code in _FORBIDDEN:
                    raise UnavailableError(
                        f"{self.field}: {self.url} refuses the request (HTTP {error.code}); give a user and a password "
                        "that may read schemas"
                    ) from None
                problem = f"answers with HTTP {error.code}"
            except (OSError, HTTPException, ValueError) as error:
                problem = f"gives no answer ({type(getattr(error, 'reason', error)).__name__})"
            if time.monotonic() >= until:
                raise UnavailableError(
                    f"{self.field}: {self.url} {problem}; start the registry, or correct the address. No record is "
                    "lost: the job goes on from its last checkpoint"
                )
            _log.warning("%s: %s %s; trying again", self.field, self.url, problem)
            time.sleep(next(pauses, _PAUSES[-1]))

    def _ask(self, number: int) -> str:
        headers = {"Accept": "application/vnd.schemaregistry.v1+json, application/json"}
        request = Request(f"{self.url.rstrip('/')}/schemas/ids/{number}", headers=headers)
        if self.user is not None:
            password = b"" if self.password is None else self.password.read()
            code = base64.b64encode(self.user.encode() + b":" + password).decode()
            request.add_unredirected_header("Authorization", f"Basic {code}")  # a redirect may lead to another server
        with urlopen(request, timeout=_SECONDS) as answer:
            content = json.loads(answer.read(_LARGEST))
        text = content.get("schema") if isinstance(content, dict) else None
        if not isinstance(text, str):
            raise ValueError("no schema")
        return text


@dataclass
class KnownSchemas(Generic[Resolved]):
    """Schemas of a registry in the form that records are read by, each of which is asked for once.

    Attributes
    ----------
    registry : registry of the schemas
    resolve : returns the form of a schema, by its number and text; None if its records are unreadable
    """

    registry: SchemaRegistry
    resolve: Callable[[int, str], Resolved | None]
    _known: dict[int, tuple[Resolved | None, float]] = field(default_factory=dict)

    def get(self, number: int) -> Resolved | None:
        """Return a schema; None if its records are unreadable. ``UnavailableError`` as of the registry."""
        found, until = self._known.get(number, (None, 0.0))
        if until < time.monotonic():
            if len(self._known) >= _SCHEMAS:
                self._known.clear()
            self._known[number] = found, _ = self._looked_up(number)
        return found

    def _looked_up(self, number: int) -> tuple[Resolved | None, float]:
        """Return a schema, and the time until which it is known."""
        text = self.registry.schema(number)
        if text is not None:
            return self.resolve(number, text), float("inf")
        # The number is not logged: it is part of a record that may be of any content.
        if all(until == float("inf") for _, until in self._known.values()):  # once for any number of them
            _log.warning(
                "%s: the registry has no schema of the number that records name; they are rejected. They were not "
                "written with this registry, or their schema was deleted from it.",
                self.registry.field,
            )
        return None, time.monotonic() + _FORGOTTEN_AFTER
