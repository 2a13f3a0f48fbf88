"""What can be wrong with a graph: one error for each violation. Each message is one line that names the cause."""

from __future__ import annotations


class TopologyError(ValueError):
    """A graph, or the description of one, that cannot be used."""


class NotSquareError(TopologyError):
    """The weight matrix is not square, or there is no agent."""


class NonFiniteWeightError(TopologyError):
    """A weight, or an agent's sum of weights, is NaN or infinite."""


class NegativeWeightError(TopologyError):
    """A weight is negative."""


class SelfLoopError(TopologyError):
    """An agent is its own neighbour."""


class AsymmetricError(TopologyError):
    """W_ij and W_ji differ."""


class DisconnectedError(TopologyError):
    """Some agents cannot reach some others, not even over several hops."""


class ParameterError(TopologyError):
    """A setting of a family or of a similarity graph is outside what is accepted."""


class UnknownKindError(TopologyError):
    """There is no such family."""


class GraphFileError(TopologyError):
    """A file that is no graph in the stated format, or names agents that cannot be numbered."""
