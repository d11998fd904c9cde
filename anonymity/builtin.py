"""The algorithms and privacy models that come with Crenel, each in one line.

Importing this module registers them (``crenel.anonymity.algorithm.known_algorithms`` and
``crenel.anonymity.model.privacy_model``). The privacy models are imported in the order in which a set of tuples is
checked: the first that is violated is the reason of a suppression.
"""

# ruff: noqa: I001
from crenel.anonymity.algorithm import Algorithm
from crenel.anonymity.model.privacy_model import PrivacyModel

from crenel.anonymity.privacy_models.alpha_k_anonymity import ALPHA as ALPHA
from crenel.anonymity.privacy_models.t_closeness import T as T
from crenel.anonymity.privacy_models.entropy_diversity import ENTROPY_L as ENTROPY_L
from crenel.anonymity.privacy_models.beta_likeness import BETA as BETA
from crenel.anonymity.privacy_models.recursive_diversity import RECURSIVE as RECURSIVE

from crenel.anonymity.algorithms.castle.algorithm import Castle as Castle
from crenel.anonymity.algorithms.cells.algorithm import Cells as Cells
from crenel.anonymity.algorithms.mondrian.algorithm import Mondrian as Mondrian
from crenel.anonymity.algorithms.nearest.algorithm import Nearest as Nearest
from crenel.anonymity.algorithms.ola.algorithm import Ola as Ola
from crenel.anonymity.algorithms.suhdsa.algorithm import Suhdsa as Suhdsa

_IMPORTED = [*vars().values()]
ALGORITHMS = tuple(one for one in _IMPORTED if isinstance(one, type) and issubclass(one, Algorithm))[1:]
PRIVACY_MODELS = tuple(one for one in _IMPORTED if isinstance(one, PrivacyModel))
