"""`aliquot selftest`: what is promised of real GPUs, tried on those of this machine."""
