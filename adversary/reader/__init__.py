"""What one reader learns from a release."""
