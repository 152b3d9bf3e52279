"""HOST. One folder per target; each turns a canonical graph into the files of one runtime."""
