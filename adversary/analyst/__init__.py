"""What an honest analyst can still estimate from noisy statistics of bounded data."""
