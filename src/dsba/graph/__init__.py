"""Who talks to whom, and with which weights."""
