"""Closed forms: moments, fixed points, plateaus, time courses and rates."""

from ._population import Population as Population
from ._population import converged_map as converged_map
from ._population import loss as loss
from ._population import plateau_losses as plateau_losses
from ._population import population as population
