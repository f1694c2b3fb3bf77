"""What is measured: pure functions from spans, windows and transcripts to verdicts."""
