"""The promises that come with Crenel beside k and l: importing this makes them known (``anonymity.promise.record``)."""

from anonymity.promise.alpha import ALPHA
from anonymity.promise.closeness import T
from anonymity.promise.entropy import ENTROPY_L
from anonymity.promise.likeness import BETA
from anonymity.promise.recursive import RECURSIVE

__all__ = ["ALPHA", "BETA", "ENTROPY_L", "RECURSIVE", "T"]
