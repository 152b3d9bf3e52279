"""Device profiles, broker configuration, systemd units."""
