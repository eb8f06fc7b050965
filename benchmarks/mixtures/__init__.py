"""How small the squared error of any mixture of several methods could be, its weights chosen in hindsight."""
