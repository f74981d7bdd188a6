"""What the commands offer for the single_location lab."""
