"""What profilers do for us: tools found and run, their files read into a trace."""
