"""Settings of the memory."""
