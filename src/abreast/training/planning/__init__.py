"""Planning a parallel run: measuring its parts (measuring), predicting plans (costs), choosing one (plan)."""
