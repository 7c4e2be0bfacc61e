"""Commands that tell what the daemon holds and believes."""
