"""The regression suite: named benchmarks, one runner, records, a stored baseline of ratios. Not part of the package."""
