"""Jobs on Spark: each is a function of a session, and a verb of the command."""
