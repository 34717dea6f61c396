package podsource

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Merged is what all sources together know.
type Merged struct {
	// Pods have to run, in the order of the sources and, within one, of its set. They are
	// shared: read only. A pod that its source has handed in again is the same object as
	// before, so that whoever compares two deliveries can pass over it.
	Pods []*corev1.Pod
	// Recalled are those of Pods that stand in for what their source has not said yet,
	// see [Merger.Recall]. It is shared, too.
	Recalled map[types.UID]bool
	// Silent are the sources that have not delivered yet, in their order.
	Silent []string
	// Complete is true when every source has delivered. Only then does absence mean
	// anything: before, no pod may be stopped because Pods does not name it.
	Complete bool
}

// ReasonFailedValidation is the reason of the kubelet's event about a pod that is left
// out of a set.
const ReasonFailedValidation = "FailedValidation"

// Conflict is a pod that is left out because another one has its place.
type Conflict struct {
	// Pod is left out of the set of Source. Winner is in its place: a pod of the same
	// namespace and name in the set of that source, or one of the same UID in any.
	Pod, Winner *corev1.Pod
	Source      string
}

// String is the message of the kubelet's event about it.
func (c Conflict) String() string {
	if c.Pod.Name == c.Winner.Name && c.Pod.Namespace == c.Winner.Namespace {
		return fmt.Sprintf("Error validating pod %s/%s from %s due to duplicate pod name %q, ignoring", c.Pod.Namespace, c.Pod.Name, c.Source, c.Pod.Name)
	}
	return fmt.Sprintf("Error validating pod %s/%s from %s due to the UID %s of pod %s/%s, ignoring",
		c.Pod.Namespace, c.Pod.Name, c.Source, c.Pod.UID, c.Winner.Namespace, c.Winner.Name)
}

// MergerConfig configures a Merger. The zero value works.
type MergerConfig struct {
	// Conflict is told of each pod that is left out, once as long as it is; nil: only the
	// log is. It is called by the goroutine of Run, which waits for it.
	Conflict func(Conflict)
	// Log gets conflicts; nil discards.
	Log *slog.Logger
}

// Merger puts the sets of several sources together. Two sources may have pods of the
// same namespace and name: these are two pods, which the agent runs one after the other.
type Merger struct {
	cfg   MergerConfig
	names []string
	wake  chan struct{}

	mu     sync.Mutex // guards the fields below
	inputs map[string]*input
	told   map[conflictKey]bool
	// last was put together of merged, which are in the order of names; both are empty
	// before the first time.
	last   Merged
	merged []input
}

// input is what is known of a source.
type input struct {
	pods []*corev1.Pod
	// heard is false as long as the source has not delivered.
	heard bool
}

// conflictKey tells conflicts apart.
type conflictKey struct {
	source      string
	pod, winner types.UID
}

// NewMerger waits for the sources of these names, all different. Of two pods of one UID
// that of the source which is named first counts.
func NewMerger(cfg MergerConfig, sources ...string) (*Merger, error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Conflict == nil {
		cfg.Conflict = func(Conflict) {}
	}
	m := &Merger{cfg: cfg, names: slices.Clone(sources), wake: make(chan struct{}, 1), inputs: map[string]*input{}}
	for _, name := range sources {
		if name == "" || m.inputs[name] != nil {
			return nil, fmt.Errorf("podsource: NewMerger with sources %q, want names that are all different", sources)
		}
		m.inputs[name] = &input{}
	}
	if len(sources) == 0 {
		return nil, errors.New("podsource: NewMerger without sources, want one at least")
	}
	return m, nil
}

// Set takes the whole set of a source in place of its last one; nil is an empty set. It
// does not wait for anybody. A source that NewMerger was not told of is an error.
func (m *Merger) Set(source string, pods []*corev1.Pod) error {
	return m.put(source, func(in *input) { in.pods, in.heard = slices.Clone(pods), true })
}

// Recall takes pods that an earlier process had from a source, in place of the set that
// the source has not delivered yet. They do not count as delivered: nothing ends because
// they do not name it. Once the source has delivered its set alone counts, and Recall has
// no effect.
func (m *Merger) Recall(source string, pods []*corev1.Pod) error {
	return m.put(source, func(in *input) {
		if !in.heard {
			in.pods = slices.Clone(pods)
		}
	})
}

func (m *Merger) put(source string, change func(*input)) error {
	m.mu.Lock()
	in := m.inputs[source]
	if in == nil {
		m.mu.Unlock()
		return fmt.Errorf("podsource: no source of a Merger is named %q, want one of %q", source, m.names)
	}
	change(in)
	m.mu.Unlock()
	select {
	case m.wake <- struct{}{}:
	default:
	}
	return nil
}

// Run calls deliver with what all sources together know after each change, one call at a
// time, until ctx ends; then it returns nil. Changes that come meanwhile are delivered
// together.
func (m *Merger) Run(ctx context.Context, deliver func(Merged)) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-m.wake:
		}
		merged, conflicts := m.merge()
		for _, c := range conflicts {
			m.cfg.Log.Warn("pod is left out", "pod", c.Pod.Namespace+"/"+c.Pod.Name, "uid", string(c.Pod.UID), "source", c.Source, "why", c.String())
			m.cfg.Conflict(c)
		}
		deliver(merged)
	}
}

// merge puts the sets together, and returns the conflicts that are new.
func (m *Merger) merge() (Merged, []Conflict) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.versionsLocked() {
		return m.last, nil
	}
	out := Merged{Recalled: map[types.UID]bool{}}
	uids := map[types.UID]*corev1.Pod{}
	var all []Conflict
	m.merged = m.merged[:0]
	for _, name := range m.names {
		in := m.inputs[name]
		m.merged = append(m.merged, *in)
		if !in.heard {
			out.Silent = append(out.Silent, name)
		}
		own := map[string]*corev1.Pod{}
		for _, pod := range in.pods {
			full := pod.Namespace + "/" + pod.Name
			winner := own[full]
			if winner == nil {
				winner = uids[pod.UID]
			}
			if winner != nil {
				all = append(all, Conflict{Pod: pod, Winner: winner, Source: name})
				continue
			}
			own[full], uids[pod.UID] = pod, pod
			out.Pods = append(out.Pods, pod)
			if !in.heard {
				out.Recalled[pod.UID] = true
			}
		}
	}
	out.Complete = len(out.Silent) == 0
	m.last = out
	return out, m.newLocked(all)
}

// versionsLocked brings the last delivery up to date and returns true if new versions of
// its pods are all that there is, as when the API server shows a status that this node has
// written. Without conflicts it is then what the sources have, one after the other.
func (m *Merger) versionsLocked() bool {
	if len(m.merged) == 0 || len(m.told) > 0 {
		return false
	}
	for i, name := range m.names {
		if in := m.inputs[name]; in.heard != m.merged[i].heard || !slices.EqualFunc(in.pods, m.merged[i].pods, samePod) {
			return false
		}
	}
	pods := make([]*corev1.Pod, 0, len(m.last.Pods))
	for i, name := range m.names {
		m.merged[i] = *m.inputs[name]
		pods = append(pods, m.merged[i].pods...)
	}
	m.last.Pods = pods
	return true
}

// samePod reports whether two objects are versions of one pod.
func samePod(a, b *corev1.Pod) bool {
	return a == b || a.UID == b.UID && a.Namespace == b.Namespace && a.Name == b.Name
}

// newLocked returns the conflicts that were not told of yet.
func (m *Merger) newLocked(all []Conflict) []Conflict {
	told := map[conflictKey]bool{}
	var fresh []Conflict
	for _, c := range all {
		key := conflictKey{c.Source, c.Pod.UID, c.Winner.UID}
		if !m.told[key] {
			fresh = append(fresh, c)
		}
		told[key] = true
	}
	m.told = told
	return fresh
}
