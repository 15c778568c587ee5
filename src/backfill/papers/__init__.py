"""One file per paper: its experiments, figures and claims."""
