"""What people see: the live display, the tables, the stories."""
