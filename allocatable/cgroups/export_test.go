//go:build linux

package cgroups

// PropertiesOf is what systemd is told of limits.
func PropertiesOf(l Limits, v2 bool) []Property { return l.properties(v2) }
