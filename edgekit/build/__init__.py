"""HOST. The pipeline: import, check, optimise, calibrate, decide, emit, verify, report."""
