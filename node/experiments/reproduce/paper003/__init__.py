"""Kang, Liu and Wang (WD-DP): figures without their server, and as each observer sees them."""
