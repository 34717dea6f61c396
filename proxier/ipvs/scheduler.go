package ipvs

import "fmt"

// DefaultScheduler is the scheduler where Config names none, as in kube-proxy.
const DefaultScheduler = "rr"

// maxSchedulerName is IP_VS_SCHEDNAME_MAXLEN of linux/ip_vs.h without the final zero.
const maxSchedulerName = 15

// schedulerFlags returns what a scheduler is to do beside its default. sh and mh choose
// by a hash: where it names a server that drains, they shall try another one instead of
// refusing the client. mh spreads the connections of one client, as in kube-proxy.
func schedulerFlags(name string) uint32 {
	switch name {
	case "sh":
		return flagFallback
	case "mh":
		return flagFallback | flagHashPort
	}
	return 0
}

// drains reports whether a scheduler passes over servers of weight 0. dh names one server
// for each address of a Service, and refuses while that one has weight 0.
func drains(scheduler string) bool { return scheduler != "dh" }

func checkScheduler(name string) error {
	if len(name) > maxSchedulerName {
		return fmt.Errorf("%q is longer than %d bytes", name, maxSchedulerName)
	}
	if name == "none" {
		return fmt.Errorf("%q is how the kernel calls a virtual server that serves nobody", name)
	}
	for _, r := range name {
		if (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '_' {
			return fmt.Errorf("%q is not the name of a scheduler of IPVS, such as rr, wrr, lc, wlc or sh", name)
		}
	}
	return nil
}
