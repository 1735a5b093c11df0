"""The watch service: evaluates composite subscriptions next to the broker."""
