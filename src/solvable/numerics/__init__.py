"""The one door to quadrature, special functions, ODEs and exact arithmetic."""
