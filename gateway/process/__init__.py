"""Master, workers, signals."""
