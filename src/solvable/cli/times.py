"""At which times a theory curve is computed."""

from dataclasses import dataclass


@dataclass(frozen=True)
class TimeOptions:
    """When it is looked at: times evenly spaced in log t."""

    t_min: float = 1e-3
    """first time t, above 0"""
    t_max: float = 1e2
    """last time t, above the first"""
    points: int = 50
    """number of times, at least 2"""

    def build(self, most: float) -> list[float]:
        """The times, at most `most`; the first and the last are exactly those asked for."""
        import numpy as np

        from solvable.validation import floating, within

        within("t_min", floating("t_min", self.t_min), 0.0, most, open_low=True)
        within("t_max", floating("t_max", self.t_max), self.t_min, most, open_low=True)
        return np.geomspace(self.t_min, self.t_max, self.count()).tolist()

    def count(self) -> int:
        """The number of points, as many as can be told."""
        from solvable import memory
        from solvable.validation import whole

        points = whole("points", self.points, 2)
        memory.refuse("points", points, 1000.0 * points)  # numbers as Python has them, and as text
        return points
