"""Problems: what people give, checked; samples, losses and penalties of all nodes; their constants."""
