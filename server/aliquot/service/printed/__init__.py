"""What kernels print: read as text, as it comes or piece by piece."""
