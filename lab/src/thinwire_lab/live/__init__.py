"""The live system under load, and what it is compared with: whole chains of processes around a real broker."""
