"""The door for other programs: control and status over HTTP."""
