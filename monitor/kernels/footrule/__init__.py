"""How far items move: Spearman's footrule, and what was made of it."""
