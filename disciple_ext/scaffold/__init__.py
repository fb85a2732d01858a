"""A new plugin package from templates: ``disciple new-plugin`` writes what this makes."""
