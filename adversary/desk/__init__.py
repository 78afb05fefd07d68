"""Where people meet it: scenario files, figures, the report and the command line."""
