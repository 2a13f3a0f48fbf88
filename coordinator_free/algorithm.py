"""What an algorithm declares about itself: every fact that the rest of the product needs to know, with its default.

Rules that hold here:
- A fact about an algorithm stands in its class and nowhere else. Code that needs one asks the class that
  `coordinator_free.agents.registry.algorithm` returns; it never compares names.
- Everything declared is public, and known before any data is read.
- A default is right for an agent that makes one noised release of its model an update.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar

from coordinator_free.agent import Agent, Setting
from coordinator_free.release import FloatArray
from coordinator_free.settings import Settings

if TYPE_CHECKING:
    from topology.network import Network


class Attack(Enum):
    """How an audit attacks an algorithm: `coordinator_free.attacks` has an attacker for each."""

    RELEASES = "releases"
    """Each release is an exact value plus its noise; one replaced record shifts the exact values."""
    COORDINATE_STEPS = "coordinate-steps"
    """The same, and each release is one gradient step of coordinate descent, so that fresh runs are cheap."""
    MINIMISERS = "minimisers"
    """Each release is the minimiser of an ADMM round plus its noise."""
    OBJECTIVES = "objectives"
    """Each release is the exact minimiser of an ADMM round whose objective holds the noise."""
    ANCHORS = "anchors"
    """The first release is an anchor (`coordinator_free.agents.personal.anchors`); all others follow from it."""
    AVERAGES = "averages"
    """Releases spread weighted sums: each agent's own contribution, or the sum alone where it is masked."""
    LOCAL_STEPS = "local-steps"
    """As ``AVERAGES``, and the contribution comes from noisy steps that are not released, or from an anchor."""


class Algorithm(Agent):
    """A decentralised algorithm, seen from one agent, and what it declares about itself.

    A subclass is made from a `coordinator_free.agent.Setting` and implements the methods of `Agent`.
    """

    newest_only: ClassVar[bool] = False
    addressed: ClassVar[bool] = False

    # -- what it needs --------------------------------------------------------------------------------------------

    settings: ClassVar[type[Settings] | None] = None
    """Its own settings. None, as for a class of the user's own: whatever any algorithm has, and free parameters."""
    needs_clip: ClassVar[bool] = False
    """A private run needs ``privacy.clip``."""
    needs_convex_loss: ClassVar[bool] = False
    finish_weight: ClassVar[str | None] = None
    """The setting of ``[learning]`` that weighs the free finish; None: the finish needs no weight."""
    finishes_by_evidence: ClassVar[bool] = False
    """Without that setting the evidence of the agent's own records weighs the finish."""

    uses_smoothness: ClassVar[bool] = True
    """Its steps rest on ``learning.smoothness``."""
    allocates: ClassVar[bool] = True
    """It divides the budget among its releases as ``privacy.allocation`` says."""
    rate_is_known: ClassVar[bool] = False
    """A theorem says how much of a release's noise the next update keeps: ``privacy.r`` may be "theory"."""

    descends: ClassVar[bool] = False
    """Each update is one gradient step on an average of all agents: `coordinator_free.problem.spending` has a rule."""

    # -- what it supports -----------------------------------------------------------------------------------------

    mechanisms: ClassVar[tuple[str, ...] | None] = None
    """Families of noise that it accepts; None: every mechanism; empty: it has no private form."""
    observers: ClassVar[tuple[str, ...]] = ("releases",)
    """For which observers epsilon may hold: the values of ``privacy.observer`` that it accepts."""
    events: ClassVar[frozenset[str]] = frozenset()
    """Which of the events "join" and "leave" its agents can take part in."""
    takes_arrivals: ClassVar[bool] = False
    """Its agents can use records that arrive during the run."""
    carries_on: ClassVar[bool] = False
    """A round may be closed without a neighbour that stays silent."""
    finishes: ClassVar[bool] = True
    """It has a free finish."""
    resumes: ClassVar[bool] = True
    """A run that lost all agents at once can go on: what an agent needs is repeated, or is in its snapshot."""

    # -- what it releases -----------------------------------------------------------------------------------------

    signs: ClassVar[bool] = False
    """Agents pass on what others released, and sign what they released themselves, where the run has ``signers``."""
    releases_models: ClassVar[bool] = True
    """What it releases are models; false where a release is something else (a gradient, a sum)."""
    releases_its_model: ClassVar[bool] = False
    """Each agent's own model is its last release, so that epsilon covers it."""
    seeks_the_objective: ClassVar[bool] = False
    """Without noise it converges to the minimum of the graph-regularised objective (Bellet et al. 2018, Eq. 2)."""

    # -- how it is attacked ---------------------------------------------------------------------------------------

    attacked_by: ClassVar[Attack] = Attack.RELEASES

    # -- how much it releases, and what that costs ------------------------------------------------------------------

    @staticmethod
    def releases(updates: int, neighbours: int) -> int:  # noqa: ARG004
        """How many releases an agent with so many neighbours makes in ``updates`` updates or rounds."""
        return updates

    @staticmethod
    def charged(updates: int) -> int:
        """How many releases are charged: one noise multiplier is calibrated for each."""
        return updates

    @classmethod
    def works_with(cls, agent: int, neighbours: Sequence[int], learning: Mapping[str, Any]) -> tuple[int, ...]:  # noqa: ARG003
        """The neighbours whose releases an agent works with all along, so that these have an age; ascending."""
        return tuple(neighbours)

    @staticmethod
    def release_dimension(dimension: int) -> int:
        """The length of a release's vector for models of that dimension."""
        return dimension

    @staticmethod
    def model_in(vector: FloatArray, dimension: int) -> FloatArray:  # noqa: ARG004
        """The model, shape (dimension,), in a release's vector."""
        return vector

    @classmethod
    def arranged(
        cls,
        network: Network,  # noqa: ARG003
        sizes: Sequence[int],  # noqa: ARG003
        dimension: int,  # noqa: ARG003
        updates: int,  # noqa: ARG003
        learning: Mapping[str, Any],  # noqa: ARG003
    ) -> Mapping[str, Any]:
        """Public numbers that rest on the whole graph and on all agents' sizes.

        Returns
        -------
        "releases" and "release_dimension", where they replace the class's own, and "learning": more parameters that
        every agent is given. Empty where the algorithm needs nothing of the kind.
        """
        return {}

    @staticmethod
    def calibrate(
        mechanism: str,  # noqa: ARG004
        releases: int,  # noqa: ARG004
        epsilon: float,  # noqa: ARG004
        delta: float,  # noqa: ARG004
        learning: Mapping[str, Any],  # noqa: ARG004
        dimension: int,  # noqa: ARG004
    ) -> FloatArray | None:
        """The noise multipliers that a total budget buys; None: those that the mechanism's family has."""
        return None

    @classmethod
    def own_noise(cls, learning: Mapping[str, Any]) -> bool:  # noqa: ARG003
        """Whether an agent's noise rests on its own public numbers: `buy` then takes the place of `calibrate`."""
        return False

    @classmethod
    def buy(
        cls, setting: Setting, records: int, budget: tuple[float, float], shares: FloatArray
    ) -> tuple[FloatArray, Mapping[str, Any]]:
        """The multipliers that a total budget buys one agent, and learning parameters that belong to them.

        Parameters
        ----------
        setting
            All that is public of the agent, without rows and multipliers.
        records
            Its size.
        budget
            (epsilon, delta) of all its releases.
        shares
            Weights of sensitivity / scale, one a charged release, the largest is 1: see `privacy.allocation`.
        """
        raise NotImplementedError

    @classmethod
    def foresee(cls, learning: Mapping[str, Any], updates: int, network: Network) -> tuple[str, ...]:  # noqa: ARG003
        """What theory warns of before a run with these settings in every agent."""
        return ()

    # -- what one agent declares of itself --------------------------------------------------------------------------

    @property
    def row_bound(self) -> float | None:
        """Public bound of a row's L2 norm, for a replaced record too; None where clipping makes it unnecessary."""
        return None

    def surrogate(self, curvature: float) -> tuple[float, FloatArray] | None:  # noqa: ARG002
        """Its update as a linear map of last releases, for a loss whose Hessian is a multiple of the identity.

        Parameters
        ----------
        curvature
            Of the loss, as a share of its public smoothness, from 0 to 1.

        Returns
        -------
        The weight of its own last release in the next, and those of its neighbours' last releases, in their order;
        None where the update is not of this kind.
        """
        return None
