package statuswriter

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodekit-go/nodekit/podworker/podstatus"
)

// journal keeps terminal statuses that the API server does not have yet, a file per
// pod. A file is on the disk, name and content, before it counts. Static pods have none:
// the API server has no more than a mirror of them. A nil journal keeps nothing.
type journal struct {
	dir string

	mu   sync.Mutex // guards kept, also while a file is written
	kept map[types.UID]corev1.PodStatus
}

// note is the content of a file.
type note struct {
	Namespace string           `json:"namespace"`
	Name      string           `json:"name"`
	UID       types.UID        `json:"uid"`
	Status    corev1.PodStatus `json:"status"`
}

// decode reads the content of a file. What it accepts can be sent.
func decode(data []byte) (*note, error) {
	n := &note{}
	if err := json.Unmarshal(data, n); err != nil {
		return nil, err
	}
	switch {
	case n.UID == "" || n.Namespace == "" || n.Name == "":
		return nil, errors.New("namespace, name or uid is missing")
	case !podstatus.IsTerminal(n.Status.Phase):
		return nil, fmt.Errorf("phase is %q, want a terminal one", n.Status.Phase)
	}
	return n, nil
}

// pod returns the pod as far as the file tells.
func (n *note) pod() *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: n.Namespace, Name: n.Name, UID: n.UID}}
}

const journalSuffix = ".json"

// openJournal reads the directory and makes it if it is missing. The error names files
// that are damaged; they are put aside, and the journal is usable. It is nil if the
// directory cannot be used at all.
func openJournal(dir string) (*journal, []*note, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, nil, fmt.Errorf("make journal of terminal statuses: %w", err)
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, nil, fmt.Errorf("read journal of terminal statuses: %w", err)
	}
	j := &journal{dir: dir, kept: map[types.UID]corev1.PodStatus{}}
	var notes []*note
	var errs []error
	for _, f := range files {
		path := filepath.Join(dir, f.Name())
		switch {
		case strings.HasPrefix(f.Name(), "."): // of a write that was cut off
			errs = append(errs, os.Remove(path))
		case strings.HasSuffix(f.Name(), journalSuffix):
			n, err := readNote(path)
			if err != nil {
				errs = append(errs, err)
				continue
			}
			notes = append(notes, n)
			j.kept[n.UID] = n.Status
		}
	}
	return j, notes, errors.Join(errs...)
}

// readNote reads a file. One that is damaged is renamed, so that people can look at it.
func readNote(path string) (*note, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read terminal status: %w", err)
	}
	n, err := decode(data)
	if err == nil && filepath.Base(path) != fileName(n.UID) {
		err = fmt.Errorf("it is about pod %s", n.UID)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("terminal status in %s is damaged, it is kept as %[1]s.bad: %w", path, err), os.Rename(path, path+".bad"))
	}
	return n, nil
}

// fileName returns the name of the file of a pod. A UID may hold any character.
func fileName(uid types.UID) string { return "pod-" + url.PathEscape(string(uid)) + journalSuffix }

// put writes the terminal status of a pod unless it is there.
func (j *journal) put(pod *corev1.Pod, status *corev1.PodStatus) error {
	if j == nil || isStatic(pod) {
		return nil
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if old, ok := j.kept[pod.UID]; ok && equality.Semantic.DeepEqual(&old, status) {
		return nil
	}
	data, err := json.Marshal(note{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, Status: *status})
	if err != nil {
		return fmt.Errorf("encode terminal status of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	if err := replace(filepath.Join(j.dir, fileName(pod.UID)), data); err != nil {
		return fmt.Errorf("store terminal status of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	j.kept[pod.UID] = *status
	return nil
}

// drop removes a status of a pod, or whatever there is if status is nil. A newer one
// stays, and one that a crash leaves behind is written once more.
func (j *journal) drop(uid types.UID, status *corev1.PodStatus) error {
	if j == nil {
		return nil
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	kept, ok := j.kept[uid]
	if !ok || (status != nil && !equality.Semantic.DeepEqual(&kept, status)) {
		return nil
	}
	if err := os.Remove(filepath.Join(j.dir, fileName(uid))); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove terminal status: %w", err)
	}
	delete(j.kept, uid)
	return nil
}

// replace writes a file so that after a crash at any point, also of the machine, its
// old or its new content is there.
func replace(path string, data []byte) (err error) {
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name()) // the first error says it all
		}
	}()
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return err
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
