"""What an agency should do about it."""
