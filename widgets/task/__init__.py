"""A task that is answered by clicking, what stays veiled until then, and which tasks are solved."""
