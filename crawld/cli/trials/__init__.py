"""Commands that try crawld out: demo and simulations."""
