"""What a norm costs: operations and bytes, estimates by roofline, speed beside plain PyTorch."""
