"""The promises that come with Crenel beside k and l: importing this makes them known (``anonymity.promise.record``)."""

from anonymity.promise.alpha import ALPHA
from anonymity.promise.entropy import ENTROPY_L
from anonymity.promise.recursive import RECURSIVE

__all__ = ["ALPHA", "ENTROPY_L", "RECURSIVE"]
