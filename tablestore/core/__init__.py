"""What every package stands on: errors, the environment, options, arguments."""
