"""Read nginx syntax and judge it by rows."""
