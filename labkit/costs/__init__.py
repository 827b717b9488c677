"""What a norm costs: operations and bytes, estimates by roofline, two calls timed turn about."""
