package main

import (
	"github.com/spf13/pflag"

	"github.com/nodekit-go/nodekit/examples/internal/cli"
)

// idle is a flag of a kubelet that is taken so that what starts kubelets starts this one,
// too, and why it has no effect here.
type idle struct{ flag, why string }

// idleFlags are those without effect: the kubelet's own, and some of older ones that
// scripts still set.
func idleFlags() []idle {
	const (
		runtimes = "it is the runtime's to know"
		removed  = "kubelets no longer have it"
	)
	return []idle{
		{"runtime-cgroups", "the runtime's use is told by the runtime"},
		{"housekeeping-interval", "what containers use is asked for when somebody wants to know"},
		{"lock-file", "the root directory has a lock"},
		{"exit-on-lock-contention", "a second kubelet on a root directory never starts"},
		{"experimental-mounter-path", removed},
		{"experimental-allocatable-ignore-eviction", "the hard thresholds always count"},
		{"pod-infra-container-image", runtimes},
		{"container-runtime", "it is always a remote one"},
		{"network-plugin", runtimes},
		{"cni-conf-dir", runtimes},
		{"cni-bin-dir", runtimes},
		{"cloud-config", removed},
		{"keep-terminated-pod-volumes", removed},
		{"master-service-namespace", removed},
		{"non-masquerade-cidr", removed},
		{"enable-cadvisor-json-endpoints", removed},
		{"logtostderr", "the log goes to standard error"},
		{"alsologtostderr", "the log goes to standard error"},
	}
}

// addIdle defines the flags without effect, which the help does not show.
func addIdle(c *cli.Command) {
	f := c.Group("Without effect")
	for _, i := range idleFlags() {
		f.String(i.flag, "", "has no effect: "+i.why)
		flag := f.Lookup(i.flag)
		flag.NoOptDefVal = noValue(i.flag)
		flag.Hidden = true
	}
}

// noValue is the value of those that need none.
func noValue(flag string) string {
	switch flag {
	case "exit-on-lock-contention", "experimental-allocatable-ignore-eviction", "keep-terminated-pod-volumes",
		"enable-cadvisor-json-endpoints", "logtostderr", "alsologtostderr":
		return "true"
	}
	return ""
}

// idleSet are those without effect that were set.
func idleSet(f *pflag.FlagSet) []idle {
	var set []idle
	for _, i := range idleFlags() {
		if f.Changed(i.flag) {
			set = append(set, i)
		}
	}
	return set
}
