"""The laboratory of thinwire: measurements, reproductions and simulations."""
