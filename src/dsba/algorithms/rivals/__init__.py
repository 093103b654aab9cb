"""The methods that DSBA is compared with, one a file."""
