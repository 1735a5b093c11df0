"""Pub/sub that sends less."""
