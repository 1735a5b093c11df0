"""The demonstration behind `thinwire demo`: a complete system on one machine, in which every part is a process."""
