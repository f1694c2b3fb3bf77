"""Signal work on arrays: time base, buffers, resampling, VAD, spans, synthesis, alignment."""
