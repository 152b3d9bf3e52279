"""Other quantizers, each in an environment of its own. The scripts here run there and never import edgekit."""
