"""The HTTP engine: wire, router, phases, filters, output."""
