"""What every lab is held to. Each module LAB.py says what there is in a lab; the tests run it."""

LABS = ("msfr", "shallow_icl", "single_location", "deep_icl")
