"""The algorithms that come with Crenel: importing this makes them known (``anonymity.algorithm.known_algorithms``)."""

from anonymity.castle.algorithm import CASTLE
from anonymity.mondrian.algorithm import MONDRIAN
from anonymity.nearest.algorithm import NEAREST
from anonymity.ola.algorithm import OLA
from anonymity.window.algorithm import WINDOW

__all__ = ["CASTLE", "MONDRIAN", "NEAREST", "OLA", "WINDOW"]
