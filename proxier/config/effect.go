package config

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/nodekit-go/nodekit/internal/strictyaml"
)

// Honoured lists the fields that have an effect, each with what is under it. A
// program that honours fewer says so itself.
func Honoured() []string {
	return []string{
		"apiVersion", "kind", "hostnameOverride", "bindAddress", "bindAddressHardFail", "healthzBindAddress",
		"mode", "nftables", "detectLocalMode", "detectLocal", "clusterCIDR", "nodePortAddresses",
		"clientConnection", "metricsBindAddress", "enableProfiling", "oomScoreAdj", "conntrack",
		"logging.format", "logging.verbosity",
	}
}

// inert are fields that kube-proxy on Linux ignores as well, and configSyncPeriod:
// what comes off the wire is not kept, so that nothing could be delivered again.
func inert() []string {
	return []string{"portRange", "winkernel", "windowsRunAsService", "configSyncPeriod"}
}

// ineffective returns the fields of the document that are set to something and have
// no effect. null, false, 0 and what is empty ask for nothing. Where mode is set
// kube-proxy, too, ignores the sections of the other modes.
// Fields in except are not looked at.
func ineffective(doc strictyaml.Document, mode Mode, except []Problem) []Problem {
	var tree map[string]any
	if err := json.Unmarshal(doc.JSON(), &tree); err != nil {
		return nil // the document has been decoded before
	}
	known := append(Honoured(), inert()...)
	if mode != "" {
		known = append(known, "iptables", "ipvs")
	}
	for _, p := range except {
		known = append(known, p.Field)
	}
	var out []Problem
	walk("", tree, func(path string) bool { return !slices.Contains(known, path) }, func(path string) {
		out = append(out, Problem{Line: doc.LineOf(path), Field: path, Reason: reason(path)})
	})
	return out
}

func reason(path string) string {
	section, _, _ := strings.Cut(path, ".")
	section, _, _ = strings.Cut(section, "[")
	switch section {
	case "iptables":
		return "has no effect: mode is not iptables"
	case "ipvs":
		return "has no effect: mode is not ipvs"
	case "showHiddenMetricsForVersion":
		return "has no effect: no metric is hidden"
	case "featureGates":
		return "has no effect: no feature has a gate"
	}
	return "has no effect here"
}

// walk calls leaf for each value that asks for something, below fields that enter
// admits.
func walk(path string, value any, enter func(string) bool, leaf func(string)) {
	switch v := value.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			at := name
			switch path {
			case "":
			case "featureGates": // the one map among the fields
				at = path + "[" + name + "]"
			default:
				at = path + "." + name
			}
			if enter(at) {
				walk(at, v[name], enter, leaf)
			}
		}
	default:
		if asks(v) {
			leaf(path)
		}
	}
}

// asks reports whether a value that is no mapping asks for something.
func asks(value any) bool {
	switch v := value.(type) {
	case []any:
		return len(v) > 0
	case bool:
		return v
	case float64:
		return v != 0
	case string:
		return v != "" && v != "0" && v != "0s"
	}
	return false
}

func sortByLine(problems []Problem) {
	slices.SortStableFunc(problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), strings.Compare(a.Field, b.Field))
	})
}
