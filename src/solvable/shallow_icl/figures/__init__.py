"""The paper's figures and claims, and figures that it lacks."""

# In the order of the report.
FIGURES = ()
