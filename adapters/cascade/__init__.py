"""A real voice agent in one box: it listens, recognises, decides and speaks, over a WebSocket.

Silero endpointing -> offline recognition -> a small dialogue policy -> synthesis, served on this
machine as an OpenAI Realtime (GA) server. docs/cascade.md says what it understands and what not.
"""
