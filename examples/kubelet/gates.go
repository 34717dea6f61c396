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
// defaults. A locked one can't be switched; one that this program does not follow says what
// is here in its place
// (https://kubernetes.io/docs/reference/command-line-tools-reference/feature-gates).
//
//go:embed gates.txt
var gateList string

// gate is what is known of a feature gate: its default in a kubelet, and what is here.
type gate struct{ on, here, locked bool }

func knownGates() map[string]gate {
	gates := map[string]gate{}
	for line := range strings.Lines(gateList) {
		words := strings.Fields(line)
		g := gate{on: words[1] == "on", locked: slices.Contains(words[2:], "locked")}
		g.here = g.on && !slices.Contains(words[2:], "here:off") || slices.Contains(words[2:], "here:on")
		gates[words[0]] = g
	}
	return gates
}

// manyGates are those that switch many at once, with what setting them would change: they
// overrule the defaults of all features of a stage, and those of the first are off anyway.
func manyGates() map[string][]bool {
	return map[string][]bool{"AllAlpha": {true}, "AllBeta": {true, false}}
}

// switchable are the gates that this program switches.
func switchable() []string {
	return []string{node.GateUserNamespace, node.GateFlagz, node.GateStatusz}
}

// checkGates says which gates of the configuration are wrong, as for a kubelet, and which
// ask for what this program does not switch: it does what the gates do by default, but for
// some.
func checkGates(k *kubeletconfig.KubeletConfiguration) []config.Problem {
	known := knownGates()
	var problems []config.Problem
	for _, name := range slices.Sorted(maps.Keys(k.FeatureGates)) {
		on := k.FeatureGates[name]
		g, ok := known[name]
		many, isMany := manyGates()[name]
		p := config.Problem{Field: "featureGates." + name, Severity: config.Error}
		switch {
		case isMany && !slices.Contains(many, on):
			continue
		case isMany:
			p.Severity, p.Message = config.Warning, "has no effect: no feature is switched by it"
		case !ok:
			p.Message = "no feature gate has this name"
		case g.locked && g.on != on:
			p.Message = fmt.Sprintf("cannot be %t, the feature is locked", on)
		case g.here == on || slices.Contains(switchable(), name):
			continue
		default:
			p.Severity = config.Warning
			p.Message = "has no effect: the feature is as if it were " + strconv.FormatBool(g.here)
		}
		problems = append(problems, p)
	}
	return problems
}
