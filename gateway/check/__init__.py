"""`tengine --check`: judge configurations where they lie, without their hosts, users, certificates or folders."""
