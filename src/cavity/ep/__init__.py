"""How it is inferred: sites, sweeps, schedules, starts, evidence."""
