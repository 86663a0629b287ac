"""How long tests wait for what has to come."""

LONGEST = 300.0  # seconds. Nothing is given up sooner: that a machine is busy is no fault. What takes longer hangs
