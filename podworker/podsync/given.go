package podsync

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodekit-go/nodekit/podworker/podstatus"
)

// given is what a pod has of the node. It is kept in the directory of the pod, so that a
// change made while no agent ran is recognised as one.
type given struct {
	// Allocated is what was agreed on, by the name of the container.
	Allocated map[string]corev1.ResourceRequirements `json:"allocated"`
	// Actuated has the containers that have something else still, by the runtime's id: with
	// the limits of the pod as a whole where a container has none of its own.
	Actuated map[string]corev1.ResourceRequirements `json:"actuated,omitempty"`
	// Whole is what was agreed on for the pod as a whole; nil: nothing was.
	Whole *corev1.ResourceRequirements `json:"pod,omitempty"`
	// Had is what the pod as a whole has still; nil: what was agreed on.
	Had *corev1.ResourceRequirements `json:"podActuated,omitempty"`

	// pending says why the pod does not get what it asks for, failure why it does not
	// have yet what was agreed on.
	pending, failure *corev1.PodCondition
	// changing is how many running containers do not have yet what was agreed on; the pod
	// as a whole counts as one.
	changing int
	// grows is true while the cgroup of the pod is that of another agreement.
	grows bool
}

// actuated returns what single containers have; others have what the pod asks for.
func (g *given) actuated() map[string]corev1.ResourceRequirements {
	if g == nil {
		return nil
	}
	return g.Actuated
}

// had returns what the pod as a whole has; nil: what it asks for.
func (g *given) had() *corev1.ResourceRequirements {
	if g == nil {
		return nil
	}
	return g.Had
}

// givenFile is where a pod's given is kept in its directory.
const givenFile = "resources.json"

// resizeRetry is how long to wait before a resize that does not fit now is tried again
// (KEP-1287).
const resizeRetry = 30 * time.Second

// allocate decides what the pod has of the node. It returns the pod as far as the node
// agreed to what it asks for, and when to ask again, 0 for not at all.
func (s *Syncer) allocate(ctx context.Context, pod *corev1.Pod, r *record, seen *podstatus.Observed) (*corev1.Pod, time.Duration, error) {
	asked := asked(pod)
	if len(asked) == 0 || isStatic(pod) { // there is nothing to change
		return pod, 0, nil
	}
	if err := s.loadGiven(pod, r, asked); err != nil {
		return nil, 0, err
	}
	g := r.given
	if before := g.changing; g.forget(seen) == 0 && before > 0 && g.failure == nil {
		s.tellCompleted(pod, g)
	}
	whole := wholeOf(pod)
	if sameAll(asked, g.Allocated) && sameWhole(whole, g.Whole) {
		g.pending = nil
		return pod, 0, nil
	}
	has := withWhole(withResources(pod, g.Allocated), g.Whole)
	if reason, message := s.refuseResize(ctx, pod, has); reason != "" {
		s.tellPending(pod, g, reason, message)
		return has, resizeRetry, nil
	}
	g.agree(asked, whole, seen)
	if err := s.storeGiven(pod, g); err != nil {
		return nil, 0, err
	}
	s.normal(pod, "", "ResizeStarted", "Pod resize started: "+describe(asked))
	if g.changing == 0 {
		s.tellCompleted(pod, g)
	}
	return pod, 0, nil
}

// refuseResize returns why a pod may not have what it asks for, an empty reason if it may.
func (s *Syncer) refuseResize(ctx context.Context, pod, has *corev1.Pod) (reason, message string) {
	if swapChanges(pod, has, &s.cfg.Node) {
		return corev1.PodReasonInfeasible, messageSwap
	}
	if s.cfg.Parts.Resizer == nil {
		return "", ""
	}
	return s.cfg.Parts.Resizer.Resize(ctx, pod, has)
}

// agree takes down what was agreed on, and what has to be changed for it.
func (g *given) agree(asked map[string]corev1.ResourceRequirements, whole *corev1.ResourceRequirements, seen *podstatus.Observed) {
	for i := range seen.Containers {
		run := &seen.Containers[i]
		have, agreed := g.Allocated[run.Name]
		wish := asked[run.Name]
		had, gets := effective(g.Whole, &have), effective(whole, &wish)
		if _, known := g.Actuated[run.ID]; !known && agreed && !sameResources(&had, &gets) {
			g.keep(run.ID, had)
		}
	}
	if g.Had == nil && !sameWhole(whole, g.Whole) {
		g.Had = orNone(g.Whole)
	}
	if g.Had != nil && sameWhole(g.Had, whole) {
		g.Had = nil // taken back before it was carried out
	}
	g.Allocated, g.Whole, g.pending, g.grows = asked, whole, nil, true
	g.forget(seen)
}

// tellCompleted says that every container has what was agreed on.
func (s *Syncer) tellCompleted(pod *corev1.Pod, g *given) {
	g.failure = nil
	s.normal(pod, "", "ResizeCompleted", "Pod resize completed: "+describe(g.Allocated))
}

// tellPending records that a resize was not accepted and tells it once.
func (s *Syncer) tellPending(pod *corev1.Pod, g *given, reason, message string) {
	if g.pending == nil || g.pending.Reason != reason || g.pending.Message != message {
		s.warning(pod, "", "Resize"+reason, message)
	}
	g.pending = &corev1.PodCondition{Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: reason, Message: message}
}

// conditions returns the conditions of a resize under way.
func (g *given) conditions() []corev1.PodCondition {
	if g == nil {
		return nil
	}
	var out []corev1.PodCondition
	if g.pending != nil {
		out = append(out, *g.pending)
	}
	switch {
	case g.failure != nil:
		out = append(out, *g.failure)
	case g.changing > 0:
		out = append(out, corev1.PodCondition{Type: corev1.PodResizeInProgress, Status: corev1.ConditionTrue})
	}
	return out
}

// keep remembers that a container has something else than the pod asks for.
func (g *given) keep(id string, r corev1.ResourceRequirements) {
	if g.Actuated == nil {
		g.Actuated = map[string]corev1.ResourceRequirements{}
	}
	g.Actuated[id] = r
}

// forget drops what was remembered of containers that are gone or need no change, and returns how many
// that run do not have what was agreed on. What those had that ended is remembered until
// they are removed: a change ends their back-off.
func (g *given) forget(seen *podstatus.Observed) int {
	g.changing = 0
	for id := range g.Actuated {
		at := slices.IndexFunc(seen.Containers, func(run podstatus.Instance) bool { return run.ID == id })
		switch {
		case at < 0, g.agreed(id, seen.Containers[at].Name):
			delete(g.Actuated, id)
		case seen.Containers[at].State != podstatus.StateExited:
			g.changing++
		}
	}
	if g.Had != nil {
		g.changing++
	}
	return g.changing
}

// agreed reports whether a container has what was agreed on, as after a change that was
// taken back before it was carried out.
func (g *given) agreed(id, name string) bool {
	has, allocated := g.Actuated[id], g.Allocated[name]
	want := effective(g.Whole, &allocated)
	return sameResources(&has, &want)
}

// loadGiven reads what the pod has, or writes it down for the first time.
func (s *Syncer) loadGiven(pod *corev1.Pod, r *record, asked map[string]corev1.ResourceRequirements) error {
	if r.given != nil {
		return nil
	}
	path := filepath.Join(s.cfg.Node.PodDir(pod.UID), givenFile)
	raw, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		g := &given{Allocated: asked, Whole: wholeOf(pod)}
		if err := s.storeGiven(pod, g); err != nil {
			return err
		}
		r.given = g
		return nil
	case err != nil:
		return fmt.Errorf("read resources of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	g := &given{}
	if err := json.Unmarshal(raw, g); err != nil {
		// As a power cut leaves it. What is written again is what the pod asks for.
		s.log.Warn("resources of a pod cannot be read and are taken from the pod", "pod", pod.Namespace+"/"+pod.Name, "path", path, "err", err)
		g = &given{Allocated: asked, Whole: wholeOf(pod)}
		if err := s.storeGiven(pod, g); err != nil {
			return err
		}
	}
	g.grows = len(g.Actuated) > 0 || g.Had != nil
	r.given = g
	return nil
}

func (s *Syncer) storeGiven(pod *corev1.Pod, g *given) error {
	raw, err := json.Marshal(g)
	if err != nil {
		return fmt.Errorf("write resources of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	dir := s.cfg.Node.PodDir(pod.UID)
	if err := s.disk.make(podDir(dir)); err != nil {
		return fmt.Errorf("make directory of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	if err := s.disk.store(filepath.Join(dir, givenFile), raw); err != nil {
		return fmt.Errorf("write resources of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}

// asked returns what the containers of a pod ask for of what can change under them,
// empty if neither they nor the pod as a whole ask for anything.
func asked(pod *corev1.Pod) map[string]corev1.ResourceRequirements {
	out := map[string]corev1.ResourceRequirements{}
	some := wholeOf(pod) != nil
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			out[list[i].Name] = list[i].Resources
			some = some || len(list[i].Resources.Requests)+len(list[i].Resources.Limits) > 0
		}
	}
	if !some {
		return nil
	}
	return out
}

func sameAll(a, b map[string]corev1.ResourceRequirements) bool {
	for name, x := range a {
		if y, ok := b[name]; ok && !sameResources(&x, &y) {
			return false
		}
	}
	return true
}

// withResources returns a copy of the pod with other resources.
func withResources(pod *corev1.Pod, resources map[string]corev1.ResourceRequirements) *corev1.Pod {
	out := pod.DeepCopy()
	for _, list := range [][]corev1.Container{out.Spec.InitContainers, out.Spec.Containers} {
		for i := range list {
			if r, ok := resources[list[i].Name]; ok {
				list[i].Resources = *r.DeepCopy()
			}
		}
	}
	return out
}

// describe prints resources for an event, as JSON.
func describe(resources map[string]corev1.ResourceRequirements) string {
	raw, err := json.Marshal(resources)
	if err != nil {
		return err.Error()
	}
	return string(raw)
}

func isStatic(pod *corev1.Pod) bool {
	source := pod.Annotations["kubernetes.io/config.source"]
	return source != "" && source != "api"
}

// failed records why a resize is not carried out yet.
func (g *given) failed(err error) {
	g.failure = &corev1.PodCondition{
		Type: corev1.PodResizeInProgress, Status: corev1.ConditionTrue, Reason: corev1.PodReasonError, Message: err.Error(),
	}
}
