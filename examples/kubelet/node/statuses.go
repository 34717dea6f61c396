package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
)

// statuses keeps what was told last about pods as far as nobody could find it out
// again: since when their conditions hold, and which of their running containers had
// started and were ready. It is written before it is told, so that an agent that is
// restarted takes nothing back without reason.
//
// The file is replaced in one step, but not forced to the disk: containers do not
// outlive a power cut either.
type statuses struct {
	path string

	mu   sync.Mutex // guards kept, also while it is written
	kept map[types.UID]corev1.PodStatus
}

// openStatuses reads the file at path. A file that is damaged, as a power cut may
// leave it, is not read; the error says so, and the statuses are usable.
func openStatuses(path string) (*statuses, error) {
	s := &statuses{path: path, kept: map[types.UID]corev1.PodStatus{}}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &s.kept)
	}
	if err != nil {
		s.kept = map[types.UID]corev1.PodStatus{}
		return s, fmt.Errorf("read what was told of pods from %s: %w", path, err)
	}
	return s, nil
}

// get returns what was told of a pod last.
func (s *statuses) get(uid types.UID) (corev1.PodStatus, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	st, ok := s.kept[uid]
	return *st.DeepCopy(), ok
}

// note keeps what is to be told of a pod. It writes only if that differs from what
// is kept.
func (s *statuses) note(uid types.UID, status *corev1.PodStatus) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := lasting(status)
	if old, ok := s.kept[uid]; ok && equality.Semantic.DeepEqual(old, next) {
		return nil
	}
	s.kept[uid] = next
	return s.storeLocked()
}

// retain forgets all pods but some.
func (s *statuses) retain(keep func(types.UID) bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := len(s.kept)
	maps.DeleteFunc(s.kept, func(uid types.UID, _ corev1.PodStatus) bool { return !keep(uid) })
	if len(s.kept) == before {
		return nil
	}
	return s.storeLocked()
}

// storeLocked writes all that is kept.
func (s *statuses) storeLocked() error {
	data, err := json.Marshal(s.kept)
	if err == nil {
		err = replaceFile(s.path, data, false)
	}
	if err != nil {
		return fmt.Errorf("store what is told of pods: %w", err)
	}
	return nil
}

// lasting returns the part of a status that is kept.
func lasting(status *corev1.PodStatus) corev1.PodStatus {
	// The phase makes it a status to go on from; it is found out again.
	kept := corev1.PodStatus{Phase: corev1.PodPending}
	for i := range status.Conditions {
		c := &status.Conditions[i]
		if slices.Contains(ownConditions(), c.Type) {
			kept.Conditions = append(kept.Conditions, corev1.PodCondition{
				Type: c.Type, Status: c.Status, LastTransitionTime: c.LastTransitionTime,
			})
		}
	}
	for i := range status.ContainerStatuses {
		c := &status.ContainerStatuses[i]
		if c.State.Running != nil {
			kept.ContainerStatuses = append(kept.ContainerStatuses, corev1.ContainerStatus{
				Name: c.Name, ContainerID: c.ContainerID, Started: c.Started, Ready: c.Ready,
			})
		}
	}
	return kept
}

// ownConditions are those that the agent finds out.
func ownConditions() []corev1.PodConditionType {
	return []corev1.PodConditionType{
		corev1.PodReadyToStartContainers, corev1.PodInitialized, corev1.PodReady, corev1.ContainersReady, corev1.PodScheduled,
	}
}
