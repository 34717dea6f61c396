package conformance

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Host is what the outcome of a spec depends on besides the kit. Results of another host
// prove nothing here: its kernel may have what this one lacks, its suite other specs.
type Host struct {
	// Kubernetes is the version of the suite.
	Kubernetes string
	// Kernel and Runtime are minor versions, as "6.18" and "containerd 1.6".
	Kernel, Runtime string
}

// HostOf returns what versions tell of the host; see [Record.Versions]. What they do not
// tell is empty.
func HostOf(versions []string) Host {
	var h Host
	for _, text := range versions {
		switch program, version, _ := strings.Cut(text, " "); program {
		case "kubernetes":
			h.Kubernetes = version
		case "kernel":
			h.Kernel = minor(version)
		case "nodekit":
		default:
			h.Runtime = program + " " + minor(version)
		}
	}
	return h
}

var minorVersion = regexp.MustCompile(`^v?[0-9]+(\.[0-9]+)?`)

// minor cuts a version behind its second number.
func minor(version string) string {
	return cmp.Or(strings.TrimPrefix(minorVersion.FindString(version), "v"), version)
}

// Apart says what of another host is not as here, "" when the results of each count for
// the other. What is empty here is not looked at.
func (h Host) Apart(other Host) string {
	var apart []string
	for _, of := range []struct{ name, here, there string }{
		{"kubernetes ", h.Kubernetes, other.Kubernetes}, {"kernel ", h.Kernel, other.Kernel}, {"", h.Runtime, other.Runtime},
	} {
		if of.here != "" && of.here != of.there {
			apart = append(apart, fmt.Sprintf("%s%s, not %s", of.name, cmp.Or(of.there, "unknown"), of.here))
		}
	}
	return strings.Join(apart, "; ")
}

// On returns the runs that count on the host, and why the others do not: each reason once.
func (rs Runs) On(h Host) (on Runs, apart []string) {
	for _, run := range rs {
		why := h.Apart(HostOf(run.Versions))
		switch {
		case why == "":
			on = append(on, run)
		case !slices.Contains(apart, why):
			apart = append(apart, why)
		}
	}
	return on, apart
}
