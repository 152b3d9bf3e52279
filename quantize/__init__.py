"""HOST. The mathematics of quantization: observers, ranges, the parameter solver, corrections, the recipe."""
