"""The dictionary trainer: samples topic logs, trains dictionaries and announces them to publishers."""
