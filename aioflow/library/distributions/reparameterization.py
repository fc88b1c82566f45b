"""Whether gradients flow through samples to the parameters of a distribution."""

from typing import Final


class ReparameterizationType:
    """Whether samples are a differentiable function of the parameters; two of them are equal if they are one object.

    Examples:
        >>> af.distributions.Normal(0.0, 1.0).reparameterization_type
        <Reparameterization Type: FULLY_REPARAMETERIZED>
        >>> af.distributions.ReparameterizationType("PARTLY")
        <Reparameterization Type: PARTLY>
    """

    def __init__(self, rep_type: str) -> None:
        self._rep_type = rep_type

    def __repr__(self) -> str:
        return f"<Reparameterization Type: {self._rep_type}>"


FULLY_REPARAMETERIZED: Final = ReparameterizationType("FULLY_REPARAMETERIZED")
"""Gradients flow through samples to all parameters.

Examples:
    >>> af.distributions.FULLY_REPARAMETERIZED
    <Reparameterization Type: FULLY_REPARAMETERIZED>
"""

NOT_REPARAMETERIZED: Final = ReparameterizationType("NOT_REPARAMETERIZED")
"""No gradient flows through samples.

Examples:
    >>> af.distributions.NOT_REPARAMETERIZED
    <Reparameterization Type: NOT_REPARAMETERIZED>
"""
