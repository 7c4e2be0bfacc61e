"""What the daemon reads back and keeps: pages, hosts, versions, histories, estimates, settings."""
