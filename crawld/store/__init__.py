"""The door to the database: the only package that knows SQL."""
