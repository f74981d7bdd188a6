"""What the commands offer for the msfr lab."""
