"""Words that everyone speaks; imports nothing of edgekit above it."""
