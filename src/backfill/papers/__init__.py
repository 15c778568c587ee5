"""The papers whose experiments can be run again: their experiments, figures and claims."""

# Name -> (module of this package with `reproduce`, `prepare`, REPLICATIONS and LOGS, what it is). A module is imported
# when its paper is asked for.
PAPERS = {
    "farm": ("farm", "computational farm with licences and deadlines: FCFS, BF_FCFS, BF_UNMOD, BF_MOD (CoreGRID 2007)"),
    "ibb": (
        "ibb",
        "backfilling that balances cpus and memory: BFF, BL, BB, IBB on LANL-CM5 and MetaCentrum (NPC 2016)",
    ),
    "two-tier": (
        "twotier",
        "projects that are promised a departure: 2TSB, 2TFB, 2TFB-SF, 2TPB on a cloud's node (JNCA 2015)",
    ),
}
