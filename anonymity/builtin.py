"""The algorithms and privacy models that come with Crenel.

Importing this module registers them (``crenel.anonymity.algorithm.known_algorithms`` and
``crenel.anonymity.model.privacy_model``). The privacy models are registered in the order in which a set of tuples is
checked: the first that is violated is the reason of a suppression.
"""

# ruff: noqa: I001
from crenel.anonymity.privacy_models.alpha_k_anonymity import ALPHA
from crenel.anonymity.privacy_models.t_closeness import T
from crenel.anonymity.privacy_models.entropy_diversity import ENTROPY_L
from crenel.anonymity.privacy_models.beta_likeness import BETA
from crenel.anonymity.privacy_models.recursive_diversity import RECURSIVE

from crenel.anonymity.algorithms.castle.algorithm import Castle
from crenel.anonymity.algorithms.cells.algorithm import Cells
from crenel.anonymity.algorithms.mondrian.algorithm import Mondrian
from crenel.anonymity.algorithms.nearest.algorithm import Nearest
from crenel.anonymity.algorithms.ola.algorithm import Ola
from crenel.anonymity.algorithms.suhdsa.algorithm import Suhdsa

ALGORITHMS = (Castle, Cells, Mondrian, Nearest, Ola, Suhdsa)
PRIVACY_MODELS = (ALPHA, T, ENTROPY_L, BETA, RECURSIVE)

__all__ = [
    "ALGORITHMS",
    "ALPHA",
    "BETA",
    "ENTROPY_L",
    "PRIVACY_MODELS",
    "RECURSIVE",
    "Castle",
    "Cells",
    "Mondrian",
    "Nearest",
    "Ola",
    "Suhdsa",
    "T",
]
