"""Episodes: what is known of each, how a turn is executed, and the turns that are pending."""
