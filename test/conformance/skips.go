package conformance

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Skip is a spec that some hosts cannot pass, whoever's binaries run.
type Skip struct {
	// Pattern is a regular expression over the spec's full name.
	Pattern string
	// Reason says what the host lacks.
	Reason string
}

// hostLimit begins the message of a spec that is skipped because of the host.
const hostLimit = "host: "

func isHostLimit(message string) bool { return strings.HasPrefix(message, hostLimit) }

// Skips returns the known limits of hosts. A skip counts only where the stock results
// of the same set show that upstream fails the spec.
func Skips() []Skip {
	return []Skip{
		{`\[sig-node\] PrivilegedPod should enable privileged commands`, "the kernel has no dummy network device, which the pod adds"},
		{`\[sig-node\] ImageVolume should succeed with pod and pull policy of Always`, "the runtime knows no image volumes, or cannot reach the registry"},
		{`\[sig-node\] ContainerMetrics \[LinuxOnly\] when querying /metrics/cadvisor`, "control groups of version 1 count no out-of-memory events"},
		{`container has its image updated should successfully restart when the image is updated`, "the image is pulled, and there is no registry"},
		{`\[sig-node\] ImageID \[Feature:ImageID\]`, "the image is pulled, and there is no registry"},
		{`\[sig-node\] Kubelet PodOverhead handling`, "the runtime's configuration has no handler of the name that the spec uses"},
		{`\[sig-node\] Summary API when querying /stats/summary`, "kubelet and runtime have no control groups of their own as under systemd"},
	}
}

// Excuses sorts the specs by the skips: those to run, and those that are excused with
// the reason. stock holds upstream's runs of the same set.
//
// A skip that upstream has passed in one of them is an error: it would hide a fault of
// ours. So is one that upstream has no result for, because nothing proves it.
func Excuses(specs []string, skips []Skip, stock Runs) (run []string, excused []Result, err error) {
	passes, have := stock.passes(), names(stock.Newest().Results)
	for _, spec := range specs {
		skip, found, err := skipFor(spec, skips)
		switch {
		case err != nil:
			return nil, nil, err
		case !found:
			run = append(run, spec)
		case !slices.Contains(have, spec):
			return nil, nil, fmt.Errorf("%s is skipped (%s), but there is no stock result that proves it: run the set with the stock binaries first", spec, skip.Reason)
		case passes[spec] > 0:
			return nil, nil, fmt.Errorf("%s is skipped (%s), but the stock binaries pass it: remove the skip", spec, skip.Reason)
		default:
			excused = append(excused, Result{Spec: spec, State: Skipped, Message: hostLimit + skip.Reason})
		}
	}
	return run, excused, nil
}

func skipFor(spec string, skips []Skip) (Skip, bool, error) {
	for _, skip := range skips {
		pattern, err := regexp.Compile(skip.Pattern)
		if err != nil {
			return Skip{}, false, fmt.Errorf("skip %q: %w", skip.Pattern, err)
		}
		if pattern.MatchString(spec) {
			return skip, true, nil
		}
	}
	return Skip{}, false, nil
}
