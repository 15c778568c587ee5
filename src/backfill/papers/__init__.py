"""The papers with reproducible experiments: their experiments, figures and claims."""

# Name -> (module of this package with `reproduce`, NAMES of policies, REPLICATIONS and LOGS, description). A module is
# imported when its paper is asked for.
PAPERS = {
    "farm": ("farm", "computational farm with licences and deadlines: FCFS, BF_FCFS, BF_UNMOD, BF_MOD (CoreGRID 2007)"),
    "grid": ("grid", "gangs and local jobs on a grid of two sites: gang-site and gang-span (CISIS 2010)"),
    "ibb": (
        "ibb",
        "backfilling that balances cpus and memory: BFF, BL, BB, IBB on LANL-CM5 and MetaCentrum (NPC 2016)",
    ),
    "threads": (
        "threads",
        "threads of many jobs side by side: the thread matrix against FCFS and backfilling of whole jobs",
    ),
    "two-tier": (
        "twotier",
        "projects that are promised a departure: 2TSB, 2TFB, 2TFB-SF, 2TPB on a cloud's node (JNCA 2015)",
    ),
}
