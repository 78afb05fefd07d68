"""What the noise promises every reader."""
