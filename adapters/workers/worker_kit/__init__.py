"""What a worker's script and the rig share: the frames, and the loop that answers them.

A script finds this folder beside itself (`from worker_kit.serve import Model, serve`); the rig
imports `protocol` alone, and never a worker.
"""
