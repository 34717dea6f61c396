package main

import (
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	kubeletconfig "k8s.io/kubelet/config/v1beta1"

	"github.com/nodekit-go/nodekit/allocatable/config"
	"github.com/nodekit-go/nodekit/examples/kubelet/node"
)

// gateList has the feature gates that a kubelet of this release knows, with their
// defaults. A locked one can't be switched
// (https://kubernetes.io/docs/reference/command-line-tools-reference/feature-gates).
//
//go:embed gates.txt
var gateList string

// gate is what is known of a feature gate.
type gate struct{ on, locked bool }

func knownGates() map[string]gate {
	gates := map[string]gate{"AllAlpha": {}, "AllBeta": {}}
	for line := range strings.Lines(gateList) {
		words := strings.Fields(line)
		gates[words[0]] = gate{on: words[1] == "on", locked: len(words) > 2}
	}
	return gates
}

// switchable are the gates that this program switches.
func switchable() []string {
	return []string{node.GateUserNamespace, node.GateFlagz, node.GateStatusz}
}

// checkGates says which gates of the configuration are wrong, as for a kubelet, and which
// ask for what this program does not switch: it does what the gates do by default.
func checkGates(k *kubeletconfig.KubeletConfiguration) []config.Problem {
	known := knownGates()
	var problems []config.Problem
	for _, name := range slices.Sorted(maps.Keys(k.FeatureGates)) {
		on := k.FeatureGates[name]
		g, ok := known[name]
		p := config.Problem{Field: "featureGates." + name, Severity: config.Error}
		switch {
		case !ok:
			p.Message = "no feature gate has this name"
		case g.on == on || slices.Contains(switchable(), name):
			continue
		case g.locked:
			p.Message = fmt.Sprintf("cannot be %t, the feature is locked", on)
		default:
			p.Severity = config.Warning
			p.Message = "has no effect: the feature is as if it were " + strconv.FormatBool(g.on)
		}
		problems = append(problems, p)
	}
	return problems
}
