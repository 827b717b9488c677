"""Cost of norms: operations and bytes, roofline estimates, interleaved timings of two calls."""
