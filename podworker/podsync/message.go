package podsync

import (
	"bytes"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/nodekit-go/nodekit/podworker/podspec"
	"github.com/nodekit-go/nodekit/podworker/podstatus"
)

// logTail is how much of a log is read to find its last lines: enough for the
// longest message with a time stamp before each line.
const logTail = 64 << 10

// terminationMessage returns what a dead container left as its last words, empty if
// nothing. The files are the container's to write, so nothing is followed out of
// the directories of the pod.
func (s *Syncer) terminationMessage(uid types.UID, st *runtimeapi.ContainerStatus) string {
	path := st.GetAnnotations()[podspec.AnnotationTerminationMessagePath]
	if path == "" {
		return ""
	}
	text := ""
	for _, m := range st.GetMounts() {
		if m.GetContainerPath() == path {
			text = podstatus.FileMessage(readHead(s.cfg.Node.PodDir(uid), m.GetHostPath(), podstatus.MaxMessage))
		}
	}
	fallback := st.GetAnnotations()[podspec.AnnotationTerminationMessagePolicy] == string(corev1.TerminationMessageFallbackToLogsOnError)
	if text == "" && fallback && st.GetExitCode() != 0 && st.GetReason() != "ContainerCannotRun" {
		text = podstatus.LogMessage(readTail(s.cfg.Node.Logs, st.GetLogPath(), logTail))
	}
	return text
}

// openBelow opens a regular file below a directory without following links out of
// it, and without waiting where the file is a pipe.
func openBelow(dir, path string) (*os.File, error) {
	rel, err := filepath.Rel(dir, path)
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer func() { _ = root.Close() }()
	f, err := root.OpenFile(rel, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errIrregular(f, err)
	}
	return f, nil
}

func errIrregular(f *os.File, err error) error {
	if err == nil {
		err = &os.PathError{Op: "open", Path: f.Name(), Err: unix.EINVAL}
	}
	f.Close()
	return err
}

func readHead(dir, path string, limit int64) []byte {
	f, err := openBelow(dir, path)
	if err != nil {
		return nil
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, limit))
	if err != nil {
		return nil
	}
	return raw
}

// readTail returns the last bytes of a file, from the beginning of a line on.
func readTail(dir, path string, limit int64) []byte {
	f, err := openBelow(dir, path)
	if err != nil {
		return nil
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil
	}
	from := max(info.Size()-limit, 0)
	raw, err := io.ReadAll(io.NewSectionReader(f, from, limit))
	if err != nil {
		return nil
	}
	if from > 0 {
		_, raw, _ = bytes.Cut(raw, []byte{'\n'})
	}
	return raw
}
