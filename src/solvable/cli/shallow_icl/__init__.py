"""What the commands offer for the shallow_icl lab."""
