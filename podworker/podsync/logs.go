package podsync

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodekit-go/nodekit/podworker/podspec"
)

// logFile matches the log of a run and its rotated and compressed parts.
var logFile = regexp.MustCompile(`^(\d{1,9})\.log(\..*)?$`)

// nextLogNumber returns the number of the next run by the logs of earlier ones, 0
// if there are none. Files with other names do not count.
func nextLogNumber(dir string) (uint32, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read log directory: %w", err)
	}
	next := uint32(0)
	for _, e := range entries {
		if n, ok := logNumber(e.Name()); ok {
			next = max(next, n+1)
		}
	}
	return next, nil
}

func logNumber(name string) (uint32, bool) {
	m := logFile.FindStringSubmatch(name)
	if m == nil {
		return 0, false
	}
	n, err := strconv.ParseUint(m[1], 10, 32)
	return uint32(n), err == nil
}

// removeLogs removes the logs of one run from the log directory of a container.
func (s *Syncer) removeLogs(dir string, attempt uint32) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read log directory: %w", err)
	}
	var errs []error
	for _, e := range entries {
		if n, ok := logNumber(e.Name()); ok && n == attempt && !e.IsDir() {
			errs = append(errs, s.disk.remove(filepath.Join(dir, e.Name())))
		}
	}
	return errors.Join(errs...)
}

// maxLinkName is the longest name of a file (limits.h, NAME_MAX).
const maxLinkName = 255

// linkName is the name by which log collectors find the log of a container.
func linkName(pod *corev1.Pod, container, id string) string {
	suffix := "-" + id + ".log"
	name := strings.Join([]string{pod.Name, pod.Namespace, container}, "_")
	if limit := maxLinkName - len(suffix); len(name) > limit {
		name = name[:max(limit, 0)]
	}
	return name + suffix
}

// linkLog makes the link to the log of a container if the log is there. A link that
// cannot be made costs a log collector one container, not the pod.
func (s *Syncer) linkLog(pod *corev1.Pod, container, id string, attempt uint32) {
	if s.cfg.LogLinks == "" {
		return
	}
	target := filepath.Join(s.cfg.Node.LogDir(pod), podspec.LogPath(container, attempt))
	if _, err := os.Lstat(target); err != nil {
		return
	}
	link := filepath.Join(s.cfg.LogLinks, linkName(pod, container, id))
	if err := s.disk.link(target, link); err != nil {
		s.log.Warn("link to container log not made", "pod", pod.Namespace+"/"+pod.Name, "container", container, "err", err)
	}
}

// unlinkLogs removes the link of a container that is gone.
func (s *Syncer) unlinkLogs(id string) {
	if s.cfg.LogLinks == "" {
		return
	}
	links, err := filepath.Glob(filepath.Join(s.cfg.LogLinks, "*-"+id+".log"))
	for _, link := range links {
		err = errors.Join(err, s.disk.remove(link))
	}
	if err != nil {
		s.log.Warn("link to container log not removed", "container", id, "err", err)
	}
}
