"""One file per benchmark. Each is found by being here."""
