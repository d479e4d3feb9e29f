"""Doors to the memory from where people work; each module imports its own counterpart on first use."""
