"""edgekit: from a trained network to verified INT8 on edge devices."""

__version__ = "0.1.0"
