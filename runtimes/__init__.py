"""DEVICE. Runtimes and sessions."""
