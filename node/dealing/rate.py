"""How much of a release's noise an agent's next update keeps, by the theory of its algorithm: ``privacy.r = "theory"``.

Rules that hold here:
- The rate rests on public numbers alone: sizes, graph, regularisation and the smoothness of the steps. So it may decide
  how a budget is shared.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator_free.release import FloatArray
from coordinator_free.theory.coordinate_descent import TheoryError, constants
from node.configuration.refusals import ConfigurationError
from node.configuration.sections import Configuration

if TYPE_CHECKING:
    from topology.network import Network


def with_rate(
    configuration: Configuration,
    network: Network,
    confidences: FloatArray,
    smoothness: FloatArray,
    regularisations: FloatArray,
) -> Configuration:
    """The configuration with a number in the place of ``privacy.r = "theory"``: C^n of Bellet et al. (2018).

    Proposition 2 weighs global updates by powers of C; between two updates of one agent n of them pass on average.
    """
    if configuration.privacy.r != "theory":
        return configuration
    mu = float(configuration.learning.get("mu"))
    try:
        known = constants(network.degrees, confidences, smoothness, regularisations, mu)
    except TheoryError as error:
        raise ConfigurationError(f'privacy.r = "theory": {error}') from None
    privacy = configuration.privacy.model_copy(update={"r": known.kept})
    return configuration.model_copy(update={"privacy": privacy})
