"""Package marker of watches: documents, evaluation and log."""
