package runtimetest

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// logFile is the CRI log of a process. A nil logFile swallows everything: the
// container has no log path.
type logFile struct {
	path string

	// mu guards file and err; it is held over writes to keep lines whole.
	mu   sync.Mutex
	file *os.File
	// err is the first failure; the next call of reopen reports it.
	err error
}

// openLog creates the file, and its directory, or appends to it.
func openLog(path string) (*logFile, error) {
	if path == "" {
		return nil, nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	f, err := openAppend(path)
	if err != nil {
		return nil, err
	}
	return &logFile{path: path, file: f}, nil
}

func openAppend(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o640)
}

// write appends a line in the format that the kubelet reads: time, stream, tag, text
// (https://github.com/kubernetes/design-proposals-archive/blob/main/node/kubelet-cri-logging.md).
func (l *logFile) write(line LogLine) {
	if l == nil {
		return
	}
	stream, tag := runtimeapi.Stdout, runtimeapi.LogTagFull
	if line.Stream != "" {
		stream = line.Stream
	}
	if line.Partial {
		tag = runtimeapi.LogTagPartial
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		return
	}
	_, err := fmt.Fprintf(l.file, "%s %s %s %s\n", time.Now().Format(time.RFC3339Nano), stream, tag, line.Text)
	l.keepLocked(err)
}

// reopen opens the path anew, for a file that was renamed.
func (l *logFile) reopen() error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	f, err := openAppend(l.path)
	if err != nil {
		return err
	}
	if l.file != nil {
		l.keepLocked(l.file.Close())
	}
	l.file = f
	return l.err
}

func (l *logFile) close() {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file != nil {
		l.keepLocked(l.file.Close())
		l.file = nil
	}
}

func (l *logFile) keepLocked(err error) {
	if l.err == nil {
		l.err = err
	}
}
