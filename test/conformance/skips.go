package conformance

import (
	"fmt"
	"regexp"
)

// Skip is a spec that some hosts cannot pass, whoever's binaries run.
type Skip struct {
	// Pattern is a regular expression over the spec's full name.
	Pattern string
	// Fails is a regular expression over the message that upstream fails with there.
	Fails string
	// Reason says what the host lacks.
	Reason string
}

// hostLimit begins the message of a spec that is skipped because of the host.
const hostLimit = "host: "

// Skips returns the known limits of hosts. A skip counts only where the stock results
// of the same set, of a host like this one, show that upstream skips the spec or fails it
// as the skip says; see [Excuses].
func Skips() []Skip {
	const notRunning = `Timed out after .*Expected Pod to be in <v1\.PodPhase>: Running`
	return []Skip{
		{
			`\[sig-node\] PrivilegedPod should enable privileged commands`,
			`Unknown device type`, "the kernel has no dummy network device, which the pod adds",
		},
		{
			`\[sig-node\] ImageVolume should succeed with pod and pull policy of Always`,
			notRunning, "the runtime knows no image volumes, or cannot reach the registry",
		},
		{
			`container has its image updated should successfully restart when the image is updated`,
			notRunning, "the image is pulled, and there is no registry",
		},
		{
			`\[sig-node\] ImageID \[Feature:ImageID\]`,
			`Timed out after .*expected pod to be completed`, "the image is pulled, and there is no registry",
		},
		{
			`\[sig-node\] Kubelet PodOverhead handling`,
			`Timed out after .*expected pod to be running and ready`, "the runtime's configuration has no handler of the name that the spec uses",
		},
		{
			`\[sig-node\] Summary API when querying /stats/summary`,
			`SystemContainers: missing expected element (kubelet|runtime)`, "kubelet and runtime have no control groups of their own as under systemd",
		},
	}
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
