package support_test

import (
	"flag"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/nodekit-go/nodekit/podworker/podspec"
)

var update = flag.Bool("update", false, "write docs/support.md anew")

// TestPage holds docs/support.md to what the other tests show.
func TestPage(t *testing.T) {
	const page = "../../docs/support.md"
	want := (&writer{gates: gates(t), defaults: gateDefaults(t)}).page(t)
	if *update {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("docs/support.md is not current, write it with make support-page (-want +got):\n%s", diff)
	}
}

const pageHead = `# Support of API fields

<!-- Written by make support-page. -->

What becomes of each field of the API objects that a node and its proxy read and write, in Kubernetes %s, with the example
kubelet and kube-proxy. The tests of
` + "`test/support`" + ` find the fields in the types of the API, so that a field of a later version fails them until it has a row here, and
show each row: they take the field away from an object that has it and look for a difference, or for none.

| | |
|---|---|
| supported | the field does what the API says |
| refused | a pod with the field fails; its status and an event name the field and say why |
| reported | an event or the log names the field and says what happens instead |
| not the node's | another component reads it; here it changes nothing |

"Shown by" says which part of the node, or the first of several, acts otherwise without the field: *admission*, the *sandbox* or
*containers* that the runtime is asked for, the *cgroup* of the pod, *probes*, the *plan* what to start and stop, the *status*, *eviction*,
the *life* of a pod from start to end (hooks, pulls, deadlines, grace periods), *files* of volumes; or the name of a test. Refused and
reported fields are set at every place where they can be, and the report has to name them.

Gates: a field with one is in objects only if the gate is on in the API server, which drops it else; (off) marks those that are off by
default. What reaches the node is treated as the table says, whatever the kubelet's own gates are; so are the fields of static pods.

Fields that every object has (labels, annotations, deletion timestamp) are not listed. Of fields with a fixed set of values, others refuse the
pod. For agents made of the packages, [SUPPORT.md](../podworker/podspec/SUPPORT.md) of podspec says which of their abilities each field needs.
`

// writer writes the page.
type writer struct {
	strings.Builder
	gates, defaults map[string]string
}

func (w *writer) page(t *testing.T) string {
	t.Helper()
	fmt.Fprintf(w, pageHead, version(t))
	w.WriteString("\n## Pods\n")
	effects := podEffects(t)
	w.tables(reflect.TypeFor[corev1.PodSpec](), func(key string) bool { return !walked(rules())(key) }, func(key string) (string, string) { return podSupport(key), strings.Join(podProof(key, effects), ", ") })
	w.WriteString("\n## Status of pods\nWhat is not the node's stays as others have written it (`podworker/statuswriter.TestWhatOthersWriteStays`).\n")
	w.tables(reflect.TypeFor[corev1.PodStatus](), isLeftAlone, func(key string) (string, string) {
		if why, ok := statusFields[key]; ok {
			return leftAlone(why), ""
		}
		return "written", "status"
	})
	w.WriteString("\n## Services\nThe same holds in the modes nftables, iptables and ipvs.\n")
	w.tables(reflect.TypeFor[corev1.ServiceSpec](), isOthers, serviceSupport)
	w.tables(reflect.TypeFor[corev1.ServiceStatus](), isOthers, serviceSupport)
	w.WriteString("\n## EndpointSlices\n")
	w.tables(reflect.TypeFor[discoveryv1.EndpointSlice](), isOthers, serviceSupport)
	w.metadata()
	return w.String()
}

// tables writes a table for each type, in the order in which they are met.
func (w *writer) tables(root reflect.Type, stop func(key string) bool, row func(key string) (support, proof string)) {
	var owners []string
	of := map[string][]string{}
	for _, key := range keys(root, stop) {
		owner, _, _ := strings.Cut(key, ".")
		if of[owner] == nil {
			owners = append(owners, owner)
		}
		of[owner] = append(of[owner], key)
	}
	names, uses := names(root, stop)
	for _, owner := range owners {
		fmt.Fprintf(w, "\n### %s\n", owner)
		if list := uses[owner]; len(list) > 0 {
			fmt.Fprintf(w, "In %s.\n", strings.Join(list, ", "))
		}
		w.WriteString("\n| field | | shown by | gate |\n|---|---|---|---|\n")
		for _, key := range of[owner] {
			support, proof := row(key)
			fmt.Fprintf(w, "| %s | %s | %s | %s |\n", names[key], support, proof, w.gate(key))
		}
	}
}

// names returns what fields are called in manifests, and in which fields types are used.
func names(root reflect.Type, stop func(key string) bool) (names map[string]string, uses map[string][]string) {
	names, uses = map[string]string{}, map[string][]string{}
	below := map[string]bool{root.Name(): true}
	known := keys(root, stop)
	for _, key := range known {
		owner, _, _ := strings.Cut(key, ".")
		below[owner] = true
	}
	eachField(root, func(owner string, f reflect.StructField, of string) {
		key := owner + "." + f.Name
		if !slices.Contains(known, key) {
			return
		}
		names[key] = "`" + jsonName(f) + "`"
		if jsonName(f) == "" {
			names[key] = "those of " + of
		}
		if below[of] && !stop(key) {
			uses[of] = append(uses[of], "`"+strings.TrimSuffix(owner+"."+jsonName(f), ".")+"`")
		}
	})
	return names, uses
}

func (w *writer) gate(key string) string {
	gate := w.gates[key]
	if w.defaults[gate] == "off" {
		return gate + " (off)"
	}
	return gate
}

// podSupport says what becomes of a field of a pod.
func podSupport(key string) string {
	f := rules()[key]
	switch {
	case remarks[key] != "":
		return "supported " + remarks[key]
	case f.Needs != 0 && given[f.Needs] != "":
		return "supported " + given[f.Needs] + "; else " + told(f.Support) + ": " + f.Why
	case support(f) == podspec.Honoured:
		return "supported"
	case f.Support == podspec.Elsewhere:
		return "not the node's: " + f.Why
	}
	return told(f.Support) + ": " + f.Why
}

// remarks are what podspec.Check looks at beyond the rule of a field.
var remarks = map[string]string{
	"AppArmorProfile.Type": "with AppArmor in the kernel; else refused, but for Unconfined",
}

func told(s podspec.Support) string {
	if s == podspec.Warned {
		return "reported"
	}
	return s.String()
}

// given says where the example kubelet has abilities that it does not always have.
var given = map[podspec.Ability]string{
	podspec.SELinux:     "with SELinux in the kernel",
	podspec.PullSecrets: "with an API server", podspec.RuntimeClasses: "with an API server",
	podspec.ServiceAccountTokens: "with an API server", podspec.TrustBundles: "with an API server", podspec.CSIVolumes: "with an API server",
}

// podProof says who shows that a field of a pod is supported.
func podProof(key string, effects map[string][]string) []string {
	if support(rules()[key]) != podspec.Honoured {
		return nil
	}
	var by []string
	if inVolumes(key) {
		by = append(by, "files")
	} else if len(effects[key]) > 0 {
		by = append(by, effects[key][0])
	}
	for _, test := range shownBy[key] {
		by = append(by, "`"+test+"`")
	}
	return by
}

func leftAlone(why string) string {
	if strings.HasPrefix(why, "not written") {
		return why
	}
	return "not the node's: " + why
}

// serviceSupport says what becomes of a field of a Service or EndpointSlice, and who shows
// it.
func serviceSupport(key string) (string, string) {
	if whose := serviceFields[key]; whose != "" {
		return "not the proxy's: " + whose, ""
	}
	by := "rules of all modes"
	for _, test := range besideRules[key] {
		by = "`" + test + "`"
	}
	return "supported", by
}

// metadata writes the labels and annotations that the proxy reads.
func (w *writer) metadata() {
	w.WriteString("\n## Labels and annotations of Services\n\n| key | | shown by |\n|---|---|---|\n")
	for _, m := range metadataFields {
		fmt.Fprintf(w, "| `%s` | %s | `%s` |\n", m.key, m.support, m.test)
	}
}
