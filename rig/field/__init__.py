"""Field study: what recordings of real calls say, without any ground truth."""
