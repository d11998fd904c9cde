"""Secret keys: their sources, the stretching of the subject key, and the keys derived from it.

A job graph is copied to Flink's web server, to its high-availability storage, and to every worker. A key that the
configuration contains as text is copied with it, the subject key in stretched form. For a key with a ``KeySource``,
only the source is copied, and each process reads the key where it needs it.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from crenel.anonymity.model.errors import PolicyError

SHORTEST_KEY = 16
"""Minimum number of bytes of a key that causes no warning."""

_COST, _BLOCK, _LANES = 2**16, 8, 1
_STRETCHED = f"stretched-{_COST}-{_BLOCK}-{_LANES}"
"""Prefix of a stretched key's digest in state: the parameters of scrypt (64 MiB per guess)."""

_EVERYWHERE = "where the job is submitted and on every worker"


@runtime_checkable  # pydantic checks instances of this protocol
class KeySource(Protocol):
    """A location of a key, read in each process that needs the key."""

    @property
    def place(self) -> dict[str, str]:
        """The location as settings have it."""

    def read(self) -> bytes:
        """Return the key; raise ``ValueError`` with the problem and the remedy, never with the key."""


@dataclass(frozen=True)
class EnvironmentKey:
    """A key in an environment variable."""

    name: str

    @property
    def place(self) -> dict[str, str]:
        return {"environment": self.name}

    def read(self) -> bytes:
        if not (value := os.environ.get(self.name)):
            raise ValueError(f"the environment variable {self.name} is not set; set it {_EVERYWHERE}")
        return os.fsencode(value)


@dataclass(frozen=True)
class FileKey:
    """A key in a file, such as a mounted secret; one trailing line end is not part of the key."""

    path: str

    @property
    def place(self) -> dict[str, str]:
        return {"file": self.path}

    def read(self) -> bytes:
        try:
            key = Path(self.path).read_bytes().removesuffix(b"\n").removesuffix(b"\r")
        except OSError as error:
            raise ValueError(f"the file of the key cannot be read: {error.strerror}; mount it {_EVERYWHERE}") from None
        if not key:
            raise ValueError("the file of the key is empty; write the key into it")
        return key


@dataclass(frozen=True)
class ProvidedKey:
    """A key returned by a function without arguments, as bytes or text; each process calls it once.

    Attributes
    ----------
    module, function : dotted names; the module must be importable on every worker
    """

    module: str
    function: str

    @property
    def place(self) -> dict[str, str]:
        return {"provider": f"{self.module}:{self.function}"}

    def read(self) -> bytes:
        try:
            key = _provided(self.module, self.function)
        except Exception as error:  # from foreign code, whose message may contain the key
            raise ValueError(
                f"the provider {self.module}:{self.function} raised {type(error).__name__}; it must be importable, and "
                f"return the key, {_EVERYWHERE}"
            ) from None
        if not isinstance(key, bytes | str) or not key:
            raise ValueError(f"the provider {self.module}:{self.function} returned no key; return bytes or text")
        return key if isinstance(key, bytes) else key.encode()


@dataclass(frozen=True)
class Secret:
    """A key, or the location from which to read it.

    Attributes
    ----------
    name : dotted name of the configuration's field, for errors
    given : the key, where the configuration contains it as text; otherwise empty
    source : location of the key; None where the configuration contains the key, or there is none
    check : digest with which ``read`` compares the key if another process created this object; otherwise empty
    """

    name: str
    given: bytes = field(default=b"", repr=False)
    source: KeySource | None = None
    check: str = field(default="", repr=False)

    def __bool__(self) -> bool:
        return bool(self.given) or self.source is not None

    def __reduce__(self) -> tuple[Any, ...]:
        check = self.check or ("" if self.source is None else _digest(_stretched(self.read())))
        return Secret, (self.name, self.given, self.source, check)

    def read(self) -> bytes:
        """Return the key; empty where there is none.

        Raises
        ------
        PolicyError
            The source is unreadable, or its key differs from the one at job submission.
        """
        if self.source is None:
            return self.given
        try:
            key = self.source.read()
        except ValueError as error:
            raise PolicyError(f"{self.name}: {error}") from None
        if self.check and not secrets.compare_digest(self.check, _digest(_stretched(key))):
            raise PolicyError(
                f"{self.name}: the key that is read here is another than where the job was submitted; give both the "
                "same key"
            )
        return key


class SubjectKey:
    """The key of the subject hash, and the keys that are derived from it.

    The key is first stretched by scrypt, so that each guess costs 64 MiB and about 0.3 s.

    Parameters
    ----------
    secret : location of the key; None: no key, so anyone can compute this job's hashes of subjects

    Examples
    --------
    >>> len(SubjectKey(Secret("subject_key", b"sixteen bytes 16")).pseudonym_key)
    32
    """

    def __init__(self, secret: Secret | None = None) -> None:
        self._secret = secret or None

    @classmethod
    def of(cls, key: bytes) -> SubjectKey:
        """Make a subject key from the key's bytes; empty bytes mean no key."""
        return cls(Secret("subject_key", key))

    def __bool__(self) -> bool:
        return self._secret is not None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SubjectKey) and self._secret == other._secret

    def __hash__(self) -> int:
        return hash(self._secret)

    def __reduce__(self) -> tuple[Any, ...]:
        # A configured key never leaves the process, nor does any key derived from one with a source.
        if self._secret is None or self._secret.source is not None:
            return SubjectKey, (self._secret,)
        return _shipped, (self._material,)

    @property
    def place(self) -> dict[str, str] | None:
        """The place of the key as settings have it; None where it was given as text, or there is none."""
        return None if self._secret is None or self._secret.source is None else self._secret.source.place

    def read(self) -> bytes:
        """Return the key before stretching; empty where there is none. Raises as ``Secret.read`` does."""
        return b"" if self._secret is None else self._secret.read()

    @cached_property
    def _material(self) -> bytes:
        """Key material from which all other keys are derived."""
        key = self.read()
        return _stretched(key) if key else key

    @cached_property
    def hash_key(self) -> str:
        """Key of the subject hash: 16 ASCII characters with 112 bits of key material.

        pandas takes the 16 bytes of SipHash's key as UTF-8 text, so each byte carries 7 bits.
        """
        digest = hashlib.blake2b(self._material, digest_size=16, person=b"crenel-hash").digest()
        return "".join(chr(byte & 0x7F) for byte in digest)

    @cached_property
    def pseudonym_key(self) -> bytes:
        """The 32-byte key of pseudonyms (``crenel.anonymity.buffer.releases.codes``)."""
        return hashlib.blake2b(self._material, digest_size=32, person=b"crenel-pseudonym").digest()

    @cached_property
    def stored(self) -> str:
        """The stored form of this key, for comparison; guessing the key from it is deliberately slow."""
        digest = _digest(self._material)
        return f"{_STRETCHED}-{digest}" if self else digest


NO_KEY = SubjectKey()


def _shipped(material: bytes) -> SubjectKey:
    made = SubjectKey.of(material)
    made.__dict__["_material"] = material
    return made


@lru_cache(maxsize=16)
def _provided(module: str, function: str) -> Any:
    return getattr(import_module(module), function)()


@lru_cache(maxsize=16)
def _stretched(key: bytes) -> bytes:
    # The salt is constant, because jobs with one key must give one person one code; a random key needs none.
    memory = 2 * 128 * _COST * _BLOCK
    return hashlib.scrypt(key, salt=b"crenel", n=_COST, r=_BLOCK, p=_LANES, maxmem=memory, dklen=32)


def _digest(material: bytes) -> str:
    return hashlib.blake2b(material, digest_size=16, person=b"crenel-subject").hexdigest()
