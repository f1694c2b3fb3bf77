"""What a recorded two-sided call says: pure functions from speech spans to turns and rates."""
