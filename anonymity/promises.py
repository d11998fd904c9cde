"""The promises that come with Crenel beside k and l.

Importing this module registers them (``crenel.anonymity.promise.record``).
"""

from crenel.anonymity.promise.alpha import ALPHA
from crenel.anonymity.promise.closeness import T
from crenel.anonymity.promise.entropy import ENTROPY_L
from crenel.anonymity.promise.likeness import BETA
from crenel.anonymity.promise.recursive import RECURSIVE

__all__ = ["ALPHA", "BETA", "ENTROPY_L", "RECURSIVE", "T"]
