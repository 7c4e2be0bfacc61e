"""Settings, assembly, reload and the daemon's life. Only this package and the command line read settings."""
