"""The addresses of the service, one file for each subject; they read, pass on and answer, and decide nothing."""
