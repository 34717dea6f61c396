package support_test

import (
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodekit-go/nodekit/podworker/podspec"
)

// TestPodFields holds what podspec says of each field of a pod against what becomes of
// pods that have it.
func TestPodFields(t *testing.T) {
	effects := podEffects(t)
	for _, f := range podspec.Fields() {
		t.Run(f.Name, func(t *testing.T) {
			switch {
			case f.Support == podspec.Elsewhere:
				changesNothing(t, f.Name)
			case support(f) == podspec.Honoured:
				if len(effects[f.Name]) == 0 && len(shownBy[f.Name]) == 0 && !inVolumes(f.Name) {
					t.Errorf("%s is said to be honoured: have a pod of testdata/pods.yaml or volumes.yaml set it, or name a test that shows it", f.Name)
				}
			default:
				isTold(t, f)
			}
		})
	}
}

// support is what becomes of a field on a node that has everything.
func support(f podspec.Field) podspec.Support {
	if f.Needs != 0 {
		return podspec.Honoured
	}
	return f.Support
}

// walked reports whether fields below one are looked at, too.
func walked(rules map[string]podspec.Field) func(key string) bool {
	return func(key string) bool { return support(rules[key]) == podspec.Honoured }
}

// rules are what podspec says, by field.
func rules() map[string]podspec.Field {
	out := map[string]podspec.Field{}
	for _, f := range podspec.Fields() {
		out[f.Name] = f
	}
	return out
}

// isTold looks whether the field is refused, or warned of, by its name, wherever it is.
func isTold(t *testing.T, f podspec.Field) {
	t.Helper()
	pairs := alone(f.Name, walked(rules()))
	if len(pairs) == 0 {
		t.Errorf("there is no way to %s", f.Name)
	}
	for _, p := range pairs {
		if !slices.ContainsFunc(problems(p.with), func(found podspec.Problem) bool {
			return found.Support == f.Support && strings.HasPrefix(p.path, found.Field)
		}) {
			t.Errorf("%s: problems are %v, want it %s", p.path, problems(p.with), f.Support)
		}
	}
}

// changesNothing looks whether a field of somebody else has no effect, wherever it is.
func changesNothing(t *testing.T, key string) {
	t.Helper()
	pairs := alone(key, walked(rules()))
	if len(pairs) == 0 {
		t.Errorf("there is no way to %s", key)
	}
	for _, p := range pairs {
		if found := problems(p.with); len(found) > len(problems(p.base)) {
			t.Errorf("%s: problems are %v", p.path, found)
		}
		for _, o := range observers {
			if o.of(p.base) != o.of(p.with) {
				t.Errorf("%s: it is said to be %s, but %s differs", p.path, rules()[key].Why, o.name)
			}
		}
	}
}

func isElsewhere(key string) bool { return rules()[key].Support == podspec.Elsewhere }

// index is the place of an element in a path.
var index = regexp.MustCompile(`\[\d+\]`)

// seenInPods is what podEffects has found; it takes long.
var seenInPods map[string][]string

// podEffects takes every field from the specimens, one at a time. It returns by field
// which observers saw a difference, and fails for places at which nobody saw one.
func podEffects(t *testing.T) map[string][]string {
	t.Helper()
	if seenInPods != nil {
		return seenInPods
	}
	effects, places := map[string]map[string]bool{}, map[string]bool{}
	for _, pod := range specimens[corev1.Pod](t, "pods.yaml") {
		if found := problems(pod); len(found) > 0 {
			t.Errorf("%s: %v", pod.Name, found)
		}
		s := subject{pod: pod, is: map[string]string{}}
		for _, o := range observers {
			s.is[o.name] = o.of(pod)
			if o.of(pod) != s.is[o.name] {
				t.Fatalf("%s says two things of the same pod %s", o.name, pod.Name)
			}
		}
		for n, f := range set(reflect.ValueOf(&pod.Spec).Elem(), "spec") {
			place := f.key + " at " + index.ReplaceAllString(f.path, "")
			by := s.seen(t, n)
			places[place] = places[place] || len(by) > 0 || len(shownBy[f.key]) > 0 || isElsewhere(f.key) || inVolumes(f.key) && ofVolume(f.path)
			if effects[f.key] == nil {
				effects[f.key] = map[string]bool{}
			}
			for _, name := range by {
				effects[f.key][name] = true
			}
		}
	}
	for place, seen := range places {
		if !seen {
			t.Errorf("%s changes nothing: it is ignored in silence", place)
		}
	}
	seenInPods = map[string][]string{}
	for key, by := range effects {
		seenInPods[key] = inOrder(by)
	}
	return seenInPods
}

// inOrder returns the names of observers in their order, the one that sees lives last.
func inOrder(by map[string]bool) []string {
	var out []string
	for _, o := range observers {
		if by[o.name] {
			out = append(out, o.name)
		}
	}
	if by["life"] {
		out = append(out, "life")
	}
	return out
}

// subject is a specimen, and what the observers make of it.
type subject struct {
	pod  *corev1.Pod
	is   map[string]string
	life string
}

// seen returns who sees that the n-th field is missing. Lives take long, and are for what
// nobody else sees.
func (s *subject) seen(t *testing.T, n int) []string {
	t.Helper()
	p := without(s.pod, n)
	var by []string
	for _, o := range observers {
		if o.of(p) != s.is[o.name] {
			by = append(by, o.name)
		}
	}
	f := set(reflect.ValueOf(&s.pod.Spec).Elem(), "spec")[n]
	if len(by) > 0 || inVolumes(f.key) && ofVolume(f.path) || isElsewhere(f.key) || len(shownBy[f.key]) > 0 {
		return by
	}
	if s.life == "" {
		if s.life = lived(t, s.pod); lived(t, s.pod) != s.life {
			t.Fatalf("two lives of pod %s differ", s.pod.Name)
		}
	}
	if lived(t, p) != s.life {
		by = append(by, "life")
	}
	return by
}
