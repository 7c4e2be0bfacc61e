"""The only builder of concrete things: reads the configuration and puts the parts together."""
