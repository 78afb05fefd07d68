"""Slow twins: brute force beside every fast answer."""
