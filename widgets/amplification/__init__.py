"""AmplificationChart: what each byte that was written cost, over snapshots."""
