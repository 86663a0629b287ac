"""How long tests wait for what has to come."""

# Nothing is given up sooner: that a machine is busy is no fault. What takes longer hangs.
MAX_WAIT_SECONDS = 300.0
