"""WhatIf: one history or workload under two sets of options."""
