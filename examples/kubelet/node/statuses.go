package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
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
// There is a file per pod, so that a change costs the same on a full node. It is
// replaced in one step, but not forced to the disk: containers do not outlive a power
// cut either.
type statuses struct {
	dir string

	mu   sync.Mutex // guards kept, also while it is written
	kept map[types.UID]corev1.PodStatus
}

// openStatuses reads the files in dir and makes it if it is not there. Files that are
// damaged, as a power cut may leave them, are removed; the error names them, and the
// statuses are usable.
func openStatuses(dir string) (*statuses, error) {
	s := &statuses{dir: dir, kept: map[types.UID]corev1.PodStatus{}}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return s, fmt.Errorf("make directory for what is told of pods: %w", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return s, fmt.Errorf("read what was told of pods: %w", err)
	}
	var errs []error
	for _, e := range entries {
		if err := s.read(e.Name()); err != nil {
			errs = append(errs, err, os.Remove(filepath.Join(dir, e.Name())))
		}
	}
	return s, errors.Join(errs...)
}

// statusPrefix begins the names of the files, and statusSuffix ends them. Between is
// the pod's UID.
const (
	statusPrefix = "pod-"
	statusSuffix = ".json"
)

// read takes in one file.
func (s *statuses) read(name string) error {
	if strings.HasPrefix(name, ".") { // of a write that was cut off
		return os.Remove(filepath.Join(s.dir, name))
	}
	path := filepath.Join(s.dir, name)
	data, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read what was told of a pod: %w", err)
	}
	uid, err := url.PathUnescape(strings.TrimSuffix(strings.TrimPrefix(name, statusPrefix), statusSuffix))
	var status corev1.PodStatus
	if err == nil {
		err = json.Unmarshal(data, &status)
	}
	if err != nil {
		return fmt.Errorf("read what was told of a pod from %s: %w", path, err)
	}
	s.kept[types.UID(uid)] = status
	return nil
}

// path returns the file of a pod. A UID may hold any character.
func (s *statuses) path(uid types.UID) string {
	return filepath.Join(s.dir, statusPrefix+url.PathEscape(string(uid))+statusSuffix)
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
	data, err := json.Marshal(next)
	if err == nil {
		err = replaceFile(s.path(uid), data, false)
	}
	if err != nil {
		return fmt.Errorf("note what is told of a pod: %w", err)
	}
	s.kept[uid] = next
	return nil
}

// drop forgets a pod.
func (s *statuses) drop(uid types.UID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.kept[uid]; !ok {
		return nil
	}
	if err := ignoreMissing(os.Remove(s.path(uid))); err != nil {
		return fmt.Errorf("forget what was told of a pod: %w", err)
	}
	delete(s.kept, uid)
	return nil
}

// uids returns the pods of which something is kept.
func (s *statuses) uids() []types.UID {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.kept))
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
	kept.InitContainerStatuses = lastingOf(status.InitContainerStatuses) // sidecars are among them
	kept.ContainerStatuses = lastingOf(status.ContainerStatuses)
	return kept
}

// lastingOf returns what is kept of the containers that run.
func lastingOf(list []corev1.ContainerStatus) []corev1.ContainerStatus {
	var kept []corev1.ContainerStatus
	for i := range list {
		if c := &list[i]; c.State.Running != nil {
			kept = append(kept, corev1.ContainerStatus{Name: c.Name, ContainerID: c.ContainerID, Started: c.Started, Ready: c.Ready})
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
