"""What people and programs read of a database (`crawld.interfaces.read_model`), in a thread of its own."""
