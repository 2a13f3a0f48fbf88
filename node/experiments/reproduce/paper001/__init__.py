"""Zhang, Khalili and Liu (ICML 2018), *Improving the Privacy and Accuracy of ADMM-Based ...*: figures 1 to 4."""
