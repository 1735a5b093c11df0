"""Scenarios: topics whose rates, interests, values and schemas change over time, and their subscribers."""
