"""Commands that change what the daemon does."""
