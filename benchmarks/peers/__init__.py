"""cavity beside the methods that people use today, on the same splits and in the same run."""
