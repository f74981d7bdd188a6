"""What the commands offer for the deep_icl lab."""
