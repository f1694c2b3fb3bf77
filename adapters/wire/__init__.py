"""Wire protocols without I/O: what arrived and when goes in, events and messages to send come out.

Nothing here opens a socket or reads a clock; the same bytes at the same times give the same events.
"""
