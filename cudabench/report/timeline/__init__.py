"""Pictures of stretches of a trace: for a terminal, as SVG, and as a page that can be zoomed."""
