"""What an eavesdropper can learn: attacks on recorded releases, and confidence bounds on them."""
