"""What all views share: sources, figures, colours, words, the base class, pages, and the code they send."""
