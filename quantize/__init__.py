"""HOST. The mathematics of quantization: roles, observers, the parameter solver, corrections, the recipe."""
