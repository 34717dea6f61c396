package podsync

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// stepsFile is where the crash back-off of containers is kept in the directory of their
// pod while the runtime has no record of them: between the removal of all containers of a
// pod, which one of them has asked for, and their next start.
const stepsFile = "backoff.json"

// keepStep keeps the crash back-off of a container whose record is about to be removed.
func (s *Syncer) keepStep(pod *corev1.Pod, r *record, name string, step time.Duration) error {
	s.loadSteps(pod, r)
	r.mu.Lock()
	same := r.steps[name] == step
	r.steps[name] = step
	r.mu.Unlock()
	if same {
		return nil
	}
	return s.storeSteps(pod, r)
}

// step returns the crash back-off that was kept of a container, 0 if there is none.
func (s *Syncer) step(pod *corev1.Pod, r *record, name string) time.Duration {
	s.loadSteps(pod, r)
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.steps[name]
}

// dropStep forgets it, when the runtime has a record of the container again.
func (s *Syncer) dropStep(pod *corev1.Pod, r *record, name string) {
	r.mu.Lock()
	_, kept := r.steps[name]
	delete(r.steps, name)
	r.mu.Unlock()
	if !kept {
		return
	}
	if err := s.storeSteps(pod, r); err != nil { // it counts again if the record is lost
		s.log.Warn("back-off of a container is still kept", "pod", pod.Namespace+"/"+pod.Name, "container", name, "err", err)
	}
}

// loadSteps reads what an earlier process has kept. What cannot be read is as if nothing
// was: the back-off begins anew.
func (s *Syncer) loadSteps(pod *corev1.Pod, r *record) {
	r.mu.Lock()
	loaded := r.steps != nil
	r.mu.Unlock()
	if loaded {
		return
	}
	kept := map[string]time.Duration{}
	path := filepath.Join(s.cfg.Node.PodDir(pod.UID), stepsFile)
	raw, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(raw, &kept)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		err = errors.Join(err, s.disk.remove(path))
		s.log.Warn("back-off of containers cannot be read and begins anew", "pod", pod.Namespace+"/"+pod.Name, "path", path, "err", err)
		kept = map[string]time.Duration{}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.steps == nil {
		r.steps = kept
	}
}

func (s *Syncer) storeSteps(pod *corev1.Pod, r *record) error {
	r.mu.Lock()
	kept := maps.Clone(r.steps)
	r.mu.Unlock()
	path := filepath.Join(s.cfg.Node.PodDir(pod.UID), stepsFile)
	if len(kept) == 0 {
		return s.disk.remove(path)
	}
	raw, err := json.Marshal(kept)
	if err == nil {
		err = s.disk.make(podDir(filepath.Dir(path)))
	}
	if err == nil {
		err = s.disk.store(path, raw)
	}
	if err != nil {
		return fmt.Errorf("keep back-off of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}
