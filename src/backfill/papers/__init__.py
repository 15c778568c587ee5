"""One file per paper: its experiments, figures and claims."""

# Name -> (module of this package with `reproduce`, what it is). A module is imported when its paper is asked for.
PAPERS = {
    "farm": ("farm", "computational farm with licences and deadlines: FCFS, BF_FCFS, BF_UNMOD, BF_MOD (CoreGRID 2007)"),
}
