"""Everything that flows: batches between offsets into tables, exactly once, and what runs them."""
